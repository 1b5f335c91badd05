-- Roles and database of a directory of cells (docs/cells.md) on a PostgreSQL server (15 to 18) that you run or rent.
--
--   psql "$ADMIN_URL" -v owner_password=... -v operator_password=... -v router_password=... -f deploy/directory.sql
--
-- The administrator needs CREATEROLE and CREATEDB, not superuser. Run it once; afterwards `manage.py cells prepare` makes
-- the tables as the owner and gives the two other roles exactly their rights.
--
-- counterfoil_directory_owner  owns the tables; used by `cells prepare` and by nobody else
-- counterfoil_cells            what operators' commands sign in as: changes places, cannot change the history
-- counterfoil_router           what routers sign in as: reads

\set ON_ERROR_STOP on
\if :{?owner} \else \set owner counterfoil_directory_owner \endif
\if :{?operator} \else \set operator counterfoil_cells \endif
\if :{?router} \else \set router counterfoil_router \endif
\if :{?database} \else \set database counterfoil_directory \endif

CREATE ROLE :"owner" LOGIN NOCREATEDB NOCREATEROLE PASSWORD :'owner_password';
CREATE ROLE :"operator" LOGIN NOCREATEDB NOCREATEROLE PASSWORD :'operator_password';
CREATE ROLE :"router" LOGIN NOCREATEDB NOCREATEROLE PASSWORD :'router_password';
-- Whoever makes a database for another role must be able to act as it; given for this statement, then taken back.
SELECT current_user AS administrator \gset
GRANT :"owner" TO :"administrator";
CREATE DATABASE :"database" OWNER :"owner" TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C';
REVOKE :"owner" FROM :"administrator";
REVOKE ALL ON DATABASE :"database" FROM PUBLIC;
