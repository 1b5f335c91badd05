-- Roles and database for Counterfoil on a PostgreSQL server (15 to 18) that you run or rent.
--
--   psql "$ADMIN_URL" -v ON_ERROR_STOP=1 -v owner_password=... -v app_password=... -f deploy/postgresql.sql
--
-- The administrator needs CREATEROLE and CREATEDB, not superuser. Run it once; afterwards `manage.py prepare_database`
-- makes the tables as the owner and gives the application exactly its rights, on every release.
--
-- counterfoil_owner  owns the database and its tables; used by prepare_database and by nobody else
-- counterfoil_app    what web and worker sign in as: owns nothing, cannot become the owner, is bound by row-level security

\if :{?owner} \else \set owner counterfoil_owner \endif
\if :{?app} \else \set app counterfoil_app \endif
\if :{?database} \else \set database counterfoil \endif

CREATE ROLE :"owner" LOGIN NOCREATEDB NOCREATEROLE PASSWORD :'owner_password';
CREATE ROLE :"app" LOGIN NOCREATEDB NOCREATEROLE PASSWORD :'app_password';

-- Whoever makes a database for another role must be able to act as it; given for this statement, then taken back.
SELECT current_user AS administrator \gset
GRANT :"owner" TO :"administrator";
CREATE DATABASE :"database" OWNER :"owner" TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C';
REVOKE :"owner" FROM :"administrator";
