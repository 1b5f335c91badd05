-- Roles and databases for Counterfoil on a PostgreSQL server (15 to 18) that you run or rent.
--
--   psql "$ADMIN_URL" -v owner_password=... -v app_password=... -v sequencer_password=... -v eraser_password=... \
--        -v auditor_password=... -f deploy/postgresql.sql
--
-- The administrator needs CREATEROLE and CREATEDB, not superuser. Run it once; afterwards `manage.py prepare_database`
-- makes the tables as the owner and gives each role exactly its rights, on every release.
--
-- The wrapped keys of payloads and evidence are better on a server of their own. Then run this on both servers, each
-- with the passwords of the roles that it makes there:
--
--   psql "$ADMIN_URL" -v only=record ...        counterfoil, with all five roles
--   psql "$KEYS_ADMIN_URL" -v only=keys ...     counterfoil_keys, with owner, app and eraser
--
-- Wherever the keys are, keep their backups apart from those of the record, and for days only (docs/deploy.md).
--
-- counterfoil_owner      owns the database and its tables; used by prepare_database and by nobody else
-- counterfoil_app        what web and worker sign in as: owns nothing, cannot become the owner, is bound by row-level
--                        security
-- counterfoil_sequencer  gives events their place in the log and stores the signed heads; reads no payload
-- counterfoil_eraser     destroys what two people have decided to erase, through one function
-- counterfoil_auditor    reads the record of one tenant at a time, writes nothing

\set ON_ERROR_STOP on
\if :{?owner} \else \set owner counterfoil_owner \endif
\if :{?app} \else \set app counterfoil_app \endif
\if :{?sequencer} \else \set sequencer counterfoil_sequencer \endif
\if :{?eraser} \else \set eraser counterfoil_eraser \endif
\if :{?auditor} \else \set auditor counterfoil_auditor \endif
\if :{?database} \else \set database counterfoil \endif
\if :{?keys_database} \else \set keys_database counterfoil_keys \endif
\if :{?only} \else \set only both \endif

SELECT :'only' IN ('both', 'record') AS with_record, :'only' IN ('both', 'keys') AS with_keys,
    :'only' NOT IN ('both', 'record', 'keys') AS with_nothing \gset
\if :with_nothing
DO $$ BEGIN RAISE EXCEPTION 'only is record or keys; leave it out for both'; END $$;
\endif

CREATE ROLE :"owner" LOGIN NOCREATEDB NOCREATEROLE PASSWORD :'owner_password';
CREATE ROLE :"app" LOGIN NOCREATEDB NOCREATEROLE PASSWORD :'app_password';
CREATE ROLE :"eraser" LOGIN NOCREATEDB NOCREATEROLE PASSWORD :'eraser_password';
\if :with_record
CREATE ROLE :"sequencer" LOGIN NOCREATEDB NOCREATEROLE PASSWORD :'sequencer_password';
CREATE ROLE :"auditor" LOGIN NOCREATEDB NOCREATEROLE PASSWORD :'auditor_password';
\endif

-- Whoever makes a database for another role must be able to act as it; given for this statement, then taken back.
SELECT current_user AS administrator \gset
GRANT :"owner" TO :"administrator";
\if :with_record
CREATE DATABASE :"database" OWNER :"owner" TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C';
\endif
\if :with_keys
CREATE DATABASE :"keys_database" OWNER :"owner" TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C';
\endif
REVOKE :"owner" FROM :"administrator";
