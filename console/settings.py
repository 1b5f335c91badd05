"""Every setting of the product, from the environment. A wrong value stops the process with a sentence."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from console.accounts.sign_in.providers import BadProviderSettings, load_providers
from console.accounts.sign_in.session_rules import BadRoleSetting, read_idle_minutes, read_roles
from console.brokers.addresses import WrongServerAddress, read_address
from console.edge.settings_files import UnusableFile, is_plain_http_address, load_authorities, load_witness_policy
from console.event_export.destinations import load_destinations
from console.local.keys import PUSH_KEY, find_missing_keys
from console.notifications.channels import load_outlets
from console.notifications.web_push import PushSender, load_push_sender
from console.sessions.extractor import load_extractor
from ledger.key_files import BadKeyFile, read_lines

T = TypeVar("T")

BASE_DIR = Path(__file__).resolve().parent.parent
# Templates and guides: in a wheel they are inside of this package (pyproject.toml), in a checkout at its top.
FILES = next(place for place in (BASE_DIR / "console" / "files", BASE_DIR) if place.is_dir())


def _stop(sentence: str) -> NoReturn:
    sys.stderr.write(f"counterfoil: {sentence}\n")
    raise SystemExit(2)


def _text(name: str, default: str | None = None) -> str:
    value = os.environ.get(name) or default
    if value is None:
        _stop(f"{name} is not set. See docs/deploy.md, or run `make up` for everything on one machine.")
    return value


def _flag(name: str, default: bool) -> bool:
    value = os.environ.get(name, "").strip().lower()
    if value not in ("", "0", "1", "false", "true"):
        _stop(f"{name} must be 0 or 1, not {value!r}.")
    return default if value == "" else value in ("1", "true")


def _number(name: str, default: int) -> int:
    value = os.environ.get(name, "") or str(default)
    if not value.isdecimal():
        _stop(f"{name} must be a whole number, not {value!r}.")
    return int(value)


def _of_roles(name: str, default: str, read: Callable[[str], T]) -> T:
    try:
        return read(_text(name, default))
    except BadRoleSetting as wrong:
        _stop(f"{name}: {wrong}")


# A host that is gone closes no connection: TCP would go on sending to it for a quarter of an hour, and a request wait.
_HOST_IS_LOST_AFTER = {
    "connect_timeout": "5",
    "tcp_user_timeout": "10000",
    "keepalives_idle": "5",
    "keepalives_interval": "5",
    "keepalives_count": "2",
}


def _database(name: str) -> dict[str, Any]:
    """Parse `postgresql://role:password@host:port/name?option=value`, with commas between several `host:port`.

    Of several hosts the one is used that takes writes, unless the option `target_session_attrs` says otherwise; and one
    that does not answer is given up after ten seconds, unless the options of libpq for that say otherwise.
    """
    try:
        parts = urlsplit(_text(name))
        places = [urlsplit(f"//{place}") for place in parts.netloc.rpartition("@")[2].split(",")]
        hosts, ports = [place.hostname or "" for place in places], [place.port for place in places]
    except ValueError:
        _stop(f"{name} is not a valid URL.")
    if parts.scheme not in ("postgresql", "postgres") or len(parts.path) < 2 or not parts.username:
        _stop(f"{name} must look like postgresql://role:password@host:port/name.")
    if len(hosts) > 1 and not all(hosts):
        _stop(f"{name} has an empty host between its commas.")
    writable = {"target_session_attrs": "read-write"} if len(hosts) > 1 else {}
    # In an address of PostgreSQL a plus sign is itself, and no space.
    told = dict(parse_qsl(parts.query.replace("+", "%2B")))
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path[1:]),
        "USER": unquote(parts.username),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": ",".join(map(unquote, hosts)),
        "PORT": ",".join(str(port or "") for port in ports),
        "OPTIONS": _HOST_IS_LOST_AFTER | writable | told | {"application_name": "counterfoil"},
        "CONN_HEALTH_CHECKS": True,
        "CONN_MAX_AGE": 60,
        "DISABLE_SERVER_SIDE_CURSORS": True,
    }


def _address(name: str) -> str:
    """The address of a database that Django does not open itself, with its options; empty if this process has none."""
    if not os.environ.get(name):
        return ""
    options = {option: value for option, value in _database(name)["OPTIONS"].items() if option != "application_name"}
    return urlunsplit(urlsplit(os.environ[name])._replace(query=urlencode(options, quote_via=quote)))


def _signer_state() -> Path | str:
    """The place of the signer state: a path, or the address of a PostgreSQL other than the record's."""
    name = "COUNTERFOIL_SIGNER_STATE"
    value = os.environ.get(name, "")
    if value.startswith(("postgresql://", "postgres://")):
        _database(name)
        return value
    return Path(value or COUNTERFOIL_SECRETS_DIR / "guard.sqlite")


def _bucket(name: str) -> dict[str, Any] | None:
    """The bucket at `s3://name/prefix`, as options of its storage; keys and region are those of the environment."""
    address = os.environ.get(name)
    if not address:
        return None
    parts = urlsplit(address)
    if parts.scheme != "s3" or not parts.hostname:
        _stop(f"{name} must look like s3://bucket/prefix.")
    try:
        version("django-storages")
        version("boto3")
    except PackageNotFoundError:
        _stop(f"{name} is set, and the extra `s3` is not installed: pip install 'counterfoil[s3]'.")
    from botocore.config import Config

    server = os.environ.get(f"{name}_URL")
    if server and not is_plain_http_address(server):
        _stop(f"{name}_URL must look like https://s3.example.org.")
    return {
        "bucket_name": parts.netloc,
        "location": parts.path.strip("/"),
        "endpoint_url": server,
        # Left to itself, botocore asks a silent server for five minutes.
        "client_config": Config(connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 2}),
        "default_acl": None,
        "file_overwrite": True,
        # What is larger is on disk while it is read.
        "max_memory_size": 8 << 20,
    }


def _shared_server(name: str, default: str | None = None) -> str:
    url = _text(name, default)
    try:
        read_address(name, url)
    except WrongServerAddress as wrong:
        _stop(str(wrong))
    return url


def _secrets_dir() -> Path:
    folder = Path(_text("COUNTERFOIL_SECRETS_DIR"))
    if not folder.is_dir():
        _stop(f"COUNTERFOIL_SECRETS_DIR ({folder}) is not a folder.")
    if folder.stat().st_mode & 0o077:
        _stop(f"{folder} holds keys and must be closed to others: chmod 700 it.")
    if missing := find_missing_keys(folder):
        _stop(f"{folder} has no {', '.join(missing)}. `python -m console.local.keys {folder}` makes what is missing.")
    return folder


def _secrets_of(file: Path) -> list[str]:
    try:
        return [each.text for each in read_lines(file)]
    except BadKeyFile as wrong:
        _stop(str(wrong))


def _file(name: str, read: Callable[[Path], T]) -> T | None:
    path = os.environ.get(name)
    if not path:
        return None
    try:
        return read(Path(path))
    except UnusableFile as wrong:
        _stop(f"{name}: {wrong}")


# What this installation is

COUNTERFOIL_SECRETS_DIR = _secrets_dir()
# Descriptions of systems of this installation's own (docs/described-systems.md); empty if there are none.
COUNTERFOIL_SYSTEMS_DIR = os.environ.get("COUNTERFOIL_SYSTEMS_DIR", "")
if COUNTERFOIL_SYSTEMS_DIR and not Path(COUNTERFOIL_SYSTEMS_DIR).is_dir():
    _stop(f"COUNTERFOIL_SYSTEMS_DIR ({COUNTERFOIL_SYSTEMS_DIR}) is not a folder.")
COUNTERFOIL_PUBLIC_URL = _text("COUNTERFOIL_PUBLIC_URL", "http://localhost:8000").rstrip("/")
_public = urlsplit(COUNTERFOIL_PUBLIC_URL)
if _public.scheme not in ("http", "https") or not _public.hostname:
    _stop("COUNTERFOIL_PUBLIC_URL must look like https://console.example.org.")
_https = _public.scheme == "https"
_local = _public.hostname in ("localhost", "127.0.0.1", "::1")

# What this installation acts on; approvals and grants name it, so that none of staging's is good in production.
COUNTERFOIL_ENVIRONMENT = _text("COUNTERFOIL_ENVIRONMENT", "production")

# Passkeys belong to this name for good: changing it makes every one of them useless (docs/deploy.md).
COUNTERFOIL_RP_ID = _text("COUNTERFOIL_RP_ID", _public.hostname)
COUNTERFOIL_ORIGINS = (f"{_public.scheme}://{_public.netloc}",)
if _public.hostname != COUNTERFOIL_RP_ID and not (_public.hostname or "").endswith(f".{COUNTERFOIL_RP_ID}"):
    _stop("COUNTERFOIL_RP_ID must be the host of COUNTERFOIL_PUBLIC_URL, or a domain above it.")

# The key that signs the log and the guard that remembers what it signed: for the sequencer alone, and never in a
# backup of the database.
COUNTERFOIL_LOG_KEY = Path(os.environ.get("COUNTERFOIL_LOG_KEY") or COUNTERFOIL_SECRETS_DIR / "log_key.pem")
COUNTERFOIL_SIGNER_STATE = _signer_state()
# The public half of the log's key, by which web and workers check the epoch that the sequencer has signed.
COUNTERFOIL_LOG_PUBLIC_KEY = Path(
    os.environ.get("COUNTERFOIL_LOG_PUBLIC_KEY") or COUNTERFOIL_SECRETS_DIR / "log_key.pub"
)
# Where exports are put together and kept until they end; workers and web processes must see the same folder.
COUNTERFOIL_EXPORTS = Path(os.environ.get("COUNTERFOIL_EXPORTS") or BASE_DIR / "var" / "exports")
# A bucket of S3-compatible storage in which exports are kept instead; the folder is then where they are made.
COUNTERFOIL_EXPORT_BUCKET = _bucket("COUNTERFOIL_EXPORT_BUCKET")
# The file that a backup job touches when it has ended well; the status of the installation tells its age.
_stamp = os.environ.get("COUNTERFOIL_BACKUP_STAMP")
COUNTERFOIL_BACKUP_STAMP = Path(_stamp) if _stamp else None
# Where monitoring reads figures of each web process and of the installation (docs/monitoring.md): nowhere, unless a
# port is given. Nobody signs in there, so it is this machine alone unless an address is given, too.
COUNTERFOIL_METRICS_PORT = _number("COUNTERFOIL_METRICS_PORT", 0)
if COUNTERFOIL_METRICS_PORT > 65_535:
    _stop("COUNTERFOIL_METRICS_PORT must be a port: 1 to 65535, or 0 for none.")
COUNTERFOIL_METRICS_ADDRESS = _text("COUNTERFOIL_METRICS_ADDRESS", "127.0.0.1")
# The file that sequencer, eraser and beat renew as long as they work, for a supervisor that looks at its age.
_alive = os.environ.get("COUNTERFOIL_ALIVE_FILE")
COUNTERFOIL_ALIVE_FILE = Path(_alive) if _alive else None
COUNTERFOIL_SEQUENCER_ROLE = _text("COUNTERFOIL_SEQUENCER_ROLE", "counterfoil_sequencer")
COUNTERFOIL_ERASER_ROLE = _text("COUNTERFOIL_ERASER_ROLE", "counterfoil_eraser")
COUNTERFOIL_AUDITOR_ROLE = _text("COUNTERFOIL_AUDITOR_ROLE", "counterfoil_auditor")
# The directory of several installations (docs/cells.md), for operators' commands; none by default, which is one cell.
COUNTERFOIL_DIRECTORY_URL = _address("COUNTERFOIL_DIRECTORY_URL")
COUNTERFOIL_DIRECTORY_OWNER_URL = _address("COUNTERFOIL_DIRECTORY_OWNER_URL")
COUNTERFOIL_ROUTER_ROLE = _text("COUNTERFOIL_ROUTER_ROLE", "counterfoil_router")

# Who vouches for the logs to outsiders: nobody, unless somebody is named.
COUNTERFOIL_WITNESSES = _file("COUNTERFOIL_WITNESSES", load_witness_policy)
COUNTERFOIL_ANCHOR_EVERY_S = _number("COUNTERFOIL_ANCHOR_EVERY_S", 60)
COUNTERFOIL_TSA_ROOTS = _file("COUNTERFOIL_TSA_ROOTS", load_authorities) or ()
COUNTERFOIL_TSA_URL = os.environ.get("COUNTERFOIL_TSA_URL") or None
COUNTERFOIL_STAMP_EVERY_S = _number("COUNTERFOIL_STAMP_EVERY_S", 600)
if (COUNTERFOIL_TSA_URL is None) != (COUNTERFOIL_TSA_ROOTS == ()):
    _stop("COUNTERFOIL_TSA_URL and COUNTERFOIL_TSA_ROOTS belong together: set both, or neither.")
if COUNTERFOIL_TSA_URL is not None and not is_plain_http_address(COUNTERFOIL_TSA_URL):
    _stop("COUNTERFOIL_TSA_URL must look like https://tsa.example.org/stamp.")


def _collector(name: str) -> str | None:
    """The address to which spans are posted; a bare host gets the path of OTLP over HTTP."""
    url = os.environ.get(name)
    if not url:
        return None
    if not is_plain_http_address(url):
        _stop(f"{name} must look like https://collector.example.org:4318/v1/traces.")
    try:
        version("opentelemetry-exporter-otlp-proto-http")
    except PackageNotFoundError:
        _stop(f"{name} is set, and the extra `telemetry` is not installed: pip install 'counterfoil[telemetry]'.")
    return url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/v1/traces"


# Where the spans of actions go (docs/telemetry.md): nowhere, unless it is said.
COUNTERFOIL_OTLP_ENDPOINT = _collector("COUNTERFOIL_OTLP_ENDPOINT")

DEBUG = _flag("COUNTERFOIL_DEBUG", False)
SECRET_KEY, *SECRET_KEY_FALLBACKS = _secrets_of(COUNTERFOIL_SECRETS_DIR / "django_secret")
ALLOWED_HOSTS = [_public.hostname, *_text("COUNTERFOIL_EXTRA_HOSTS", " ").split()]
if _local:
    ALLOWED_HOSTS += ["localhost", "127.0.0.1"]

# Apps

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django_htmx",
    "axes",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.usersessions",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "ledger",
    "approvals",
    "reviews",
    "console",
]
if _flag("COUNTERFOIL_ONLY_RECORD", False):
    # The sequencer and the eraser know the record and nothing else.
    INSTALLED_APPS = ["ledger"]
MIDDLEWARE = [
    "console.telemetry.monitoring.count_requests",
    "console.telemetry.logging_lines.name_requests",
    "console.edge.http_protocol.tell_time",
    "console.edge.http_protocol.refuse_plain_api",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "console.edge.http_protocol.compress_pages",
    "console.edge.http_protocol.security_headers",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "console.accounts.sign_in.sessions.SignInMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "axes.middleware.AxesMiddleware",
    "console.edge.form_pages.redirect_to_form_page",
    "console.home.split_view.lead_to_next_item",
]
# What an API request with a key and no cookie passes (console/wsgi.py); its answers have the same headers.
COUNTERFOIL_KEY_MIDDLEWARE = [
    "console.telemetry.monitoring.count_requests",
    "console.telemetry.logging_lines.name_requests",
    "console.edge.http_protocol.tell_time",
    "console.edge.http_protocol.refuse_plain_api",
    "django.middleware.security.SecurityMiddleware",
    "console.edge.http_protocol.security_headers",
    "django.middleware.common.CommonMiddleware",
    "console.edge.auth.sign_in_nobody",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "console.urls"
WSGI_APPLICATION = "console.wsgi.application"
ASGI_APPLICATION = "console.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [FILES / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "console.home.layout.page_layout",
            ]
        },
    }
]
FORM_RENDERER = "console.web.widgets.InputsWithoutTemplates"

# Data. The application role owns no table; the alias "owner" exists only where migrations run.

DATABASES = {"default": _database("DATABASE_URL")}
if os.environ.get("DATABASE_OWNER_URL"):
    DATABASES["owner"] = _database("DATABASE_OWNER_URL")
if _flag("COUNTERFOIL_ONLY_RECORD", False) and os.environ.get("DATABASE_ERASER_URL"):
    # Where one process seals and erases (console/local/background.py).
    DATABASES["eraser"] = _database("DATABASE_ERASER_URL")
if _flag("COUNTERFOIL_POOL", False):
    # For web processes, whose threads share it. A worker's process runs one task at a time on one connection. What has
    # served requests holds 25 MB on the server, so those that nobody needs are closed, one a minute.
    DATABASES["default"]["OPTIONS"]["pool"] = {"min_size": 1, "max_size": 12, "max_idle": 60, "timeout": 10}
    DATABASES["default"]["CONN_MAX_AGE"] = 0
# The wrapped keys of payloads and evidence: another database, with backups of its own (ledger/keystore.py). Processes
# that open nothing, such as the sequencer, have no address of it.
KEYS_DATABASE_URL = _address("KEYS_DATABASE_URL")
KEYS_DATABASE_OWNER_URL = _address("KEYS_DATABASE_OWNER_URL")
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
# Which codes were used and how many were wrong: one count for all web processes, and one that a restart keeps.
CACHES = {"default": {"BACKEND": "django.core.cache.backends.db.DatabaseCache", "LOCATION": "console_cache"}}
# The counters, and the broker: one server for both unless the second is named.
REDIS_URL = _shared_server("REDIS_URL")
BROKER_URL = _shared_server("BROKER_URL", REDIS_URL)

# People

AUTH_USER_MODEL = "console.User"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "console.accounts.sign_in.sessions.PasswordBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "console.accounts.sign_in.sessions.LeakedPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "console.accounts.sign_in.sessions.PasswordRecorder"},
]
LOGIN_URL = "/sign-in"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/sign-in"
AXES_FAILURE_LIMIT = 10
AXES_COOLOFF_TIME = 0.25
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_HANDLER = "console.accounts.sign_in.sessions.AttemptHandler"
AXES_RESET_ON_SUCCESS = True
AXES_VERBOSE = False
# Sign-ins are lines of the log; nobody would read them here, and nothing would remove them.
AXES_DISABLE_ACCESS_LOG = True
AXES_LOCKOUT_TEMPLATE = "sign_in/locked.html"

# Signing in, through allauth: what it does not ask for is closed (no sign-up, no e-mail flows of its own).

ACCOUNT_ADAPTER = "console.accounts.sign_in.adapters.AccountAdapter"
ACCOUNT_FORMS = {
    "login": "console.accounts.sign_in.forms.SignInForm",
    "change_password": "console.accounts.sign_in.forms.PasswordChangeForm",
}
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
# Two accounts of one person may have the same verified address: that is how they are known to be one person.
ACCOUNT_UNIQUE_EMAIL = False
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_REAUTHENTICATION_TIMEOUT = 300
ACCOUNT_DEFAULT_HTTP_PROTOCOL = _public.scheme
MFA_ADAPTER = "console.accounts.sign_in.adapters.MfaAdapter"
MFA_FORMS = {
    "add_webauthn": "console.accounts.sign_in.forms.AddPasskeyForm",
    "authenticate": "console.accounts.sign_in.forms.CodeSecondStepForm",
    "reauthenticate": "console.accounts.sign_in.forms.CodeReauthenticationForm",
    "authenticate_webauthn": "console.accounts.sign_in.forms.PasskeySecondStepForm",
    "login_webauthn": "console.accounts.sign_in.forms.PasskeySignInForm",
    "reauthenticate_webauthn": "console.accounts.sign_in.forms.PasskeyReauthenticationForm",
}
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes", "webauthn"]
MFA_ALLOW_UNVERIFIED_EMAIL = True
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_TOTP_ISSUER = "Counterfoil"
MFA_TOTP_TOLERANCE = 1
MFA_WEBAUTHN_USER_VERIFICATION = "required"
try:
    _providers = load_providers(os.environ, COUNTERFOIL_SECRETS_DIR)
except BadProviderSettings as _wrong:
    _stop(str(_wrong))
SOCIALACCOUNT_ADAPTER = "console.accounts.sign_in.single_sign_on.SingleSignOnAdapter"
SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": _providers}}
SOCIALACCOUNT_ONLY = False

# What a browser is told

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _https
# The prefix makes browsers take a cookie from this host over https alone, never from a neighbour in its domain.
SESSION_COOKIE_NAME = "__Host-sessionid" if _https else "sessionid"
CSRF_COOKIE_NAME = "__Host-csrftoken" if _https else "csrftoken"
SESSION_ENGINE = "console.accounts.sign_in.sessions"
SESSION_COOKIE_HTTPONLY = True
# How long a session lasts at most, and without activity by role in minutes; 0 minutes is no limit.
COUNTERFOIL_SESSION_HOURS = _number("COUNTERFOIL_SESSION_HOURS", 12)
if COUNTERFOIL_SESSION_HOURS == 0:
    _stop("COUNTERFOIL_SESSION_HOURS must be at least 1.")
SESSION_COOKIE_AGE = COUNTERFOIL_SESSION_HOURS * 3600
COUNTERFOIL_IDLE_MINUTES = _of_roles("COUNTERFOIL_IDLE_MINUTES", "60", read_idle_minutes)
# The roles that may act only with a second factor; none by default.
COUNTERFOIL_SECOND_FACTOR_ROLES = _of_roles("COUNTERFOIL_SECOND_FACTOR_ROLES", " ", read_roles)
CSRF_FAILURE_VIEW = "console.edge.error_pages.form_expired"
CSRF_TRUSTED_ORIGINS = [COUNTERFOIL_PUBLIC_URL]
SECURE_SSL_REDIRECT = _https and _flag("COUNTERFOIL_SSL_REDIRECT", True)
SECURE_REDIRECT_EXEMPT = [r"^livez$", r"^readyz$", r"^statusz$"]
SECURE_HSTS_SECONDS = 31_536_000 if _https else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = _https
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_048_576
# A body is in memory, whole and bounded, before Django sees it (console/edge/admission.py): nothing goes to a disk.
FILE_UPLOAD_HANDLERS = ["django.core.files.uploadhandler.MemoryFileUploadHandler"]
# How many seconds a head, a body, and a client that reads an answer may take, each.
COUNTERFOIL_REQUEST_WITHIN_S = _number("COUNTERFOIL_REQUEST_WITHIN_S", 20)
if COUNTERFOIL_REQUEST_WITHIN_S == 0:
    _stop("COUNTERFOIL_REQUEST_WITHIN_S must be at least 1.")

# How often one key may call the API in a second; 0 is as often as it likes.
COUNTERFOIL_RATE_PER_S = _number("COUNTERFOIL_RATE_PER_S", 200)

# For how many seconds a person's pages may show the counters of their last page; a write of theirs counts anew.
COUNTERFOIL_FRAME_KEPT_S = 2
# Into how many messages a task shares many tenants with work (docs/architecture.md#many-tenants).
COUNTERFOIL_SHARDS = _number("COUNTERFOIL_SHARDS", 4)
if COUNTERFOIL_SHARDS == 0:
    _stop("COUNTERFOIL_SHARDS must be at least 1.")

# Who is told outside when the record raises an alarm: by mail, by a signed webhook, or by both.


def _mail(name: str) -> dict[str, Any] | None:
    """`smtps://user:password@host:port`, `smtp+starttls://…`, or plain `smtp://…` for a relay on this machine."""
    url = os.environ.get(name)
    if not url:
        return None
    parts = urlsplit(url)
    if parts.scheme not in ("smtp", "smtps", "smtp+starttls") or not parts.hostname:
        _stop(f"{name} must look like smtps://user:password@mail.example.org:465 or smtp+starttls://….")
    return {
        "host": parts.hostname,
        "port": parts.port or {"smtps": 465, "smtp+starttls": 587}.get(parts.scheme, 25),
        "username": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "use_ssl": parts.scheme == "smtps",
        "use_tls": parts.scheme == "smtp+starttls",
    }


def _webhook(name: str) -> tuple[str, str] | None:
    """The address for alarms, and the secret that signs them (`alarm_webhook` beside the keys)."""
    url = os.environ.get(name)
    if not url:
        return None
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1")):
        _stop(f"{name} must be an https address.")
    file = COUNTERFOIL_SECRETS_DIR / "alarm_webhook"
    if not file.is_file():
        _stop(f"{name} is set, and {file} is not there: put a secret of the form whsec_… into it.")
    return url, file.read_text().strip()


def _push_sender() -> PushSender | None:
    named = os.environ.get("COUNTERFOIL_PUSH_SERVICES", "")
    contact = COUNTERFOIL_PUBLIC_URL if _https else f"mailto:{COUNTERFOIL_EMAIL_FROM}"
    try:
        return load_push_sender(COUNTERFOIL_SECRETS_DIR / PUSH_KEY, named, contact)
    except UnusableFile as wrong:
        _stop(f"COUNTERFOIL_PUSH_SERVICES: {wrong}")


COUNTERFOIL_ALARM_EMAILS = _text("COUNTERFOIL_ALARM_EMAILS", " ").replace(",", " ").split()
COUNTERFOIL_EMAIL = _mail("COUNTERFOIL_EMAIL_URL")
COUNTERFOIL_EMAIL_FROM = _text("COUNTERFOIL_EMAIL_FROM", f"counterfoil@{_public.hostname}")
if COUNTERFOIL_ALARM_EMAILS and COUNTERFOIL_EMAIL is None:
    _stop("COUNTERFOIL_ALARM_EMAILS is set, and COUNTERFOIL_EMAIL_URL is not: there is no way to send them.")
COUNTERFOIL_ALARM_WEBHOOK = _webhook("COUNTERFOIL_ALARM_WEBHOOK")
# Chat rooms and webhooks of tenants, with their secrets; mail to people goes by COUNTERFOIL_EMAIL_URL.
COUNTERFOIL_CHANNELS = _file("COUNTERFOIL_CHANNELS", load_outlets) or {}
# The push services that may be called to wake the devices of people who want it; none unless named.
COUNTERFOIL_PUSH = _push_sender()
# Where tenants' events may go outside, with what signs and authorises them (docs/telemetry.md).
COUNTERFOIL_EVENT_DESTINATIONS = _file("COUNTERFOIL_EVENT_DESTINATIONS", load_destinations) or {}
# Who finds reports in messages for strict mode, in place of the built-in detector.
COUNTERFOIL_GUARD_EXTRACTOR = _file("COUNTERFOIL_GUARD_EXTRACTOR", load_extractor)

# Language, time, files

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False
STATIC_URL = "/static/"
STATIC_ROOT = os.environ.get("COUNTERFOIL_STATIC_ROOT") or None
STORAGES: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    # What was collected is compressed, named after its content and kept by browsers for good.
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if STATIC_ROOT
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
if COUNTERFOIL_EXPORT_BUCKET is not None:
    STORAGES["exports"] = {"BACKEND": "storages.backends.s3.S3Storage", "OPTIONS": COUNTERFOIL_EXPORT_BUCKET}
# Pages name the hashed file and nothing else, so no other is compressed and kept: half of what collecting takes.
WHITENOISE_KEEP_ONLY_HASHED_FILES = True
# Else served from the apps' own folders, so a checkout needs no collecting step.
WHITENOISE_USE_FINDERS = not STATIC_ROOT

# Logs: one line each, for operators, and never a payload. The ledger is the record.

_LINES = {
    "line": {
        "()": "console.telemetry.logging_lines.LineFormatter",
        "format": "%(asctime)s %(levelname)s %(name)s %(message)s",
    },
    "json": {"()": "console.telemetry.json_lines.JsonFormatter"},
}
_log_format = _text("COUNTERFOIL_LOG_FORMAT", "line")
if _log_format not in _LINES:
    _stop(f"COUNTERFOIL_LOG_FORMAT must be line or json, not {_log_format!r}.")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"chosen": _LINES[_log_format]},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "chosen"}},
    "loggers": {
        # One line for each request to a system that is read back would drown the rest, and the address of a chat room
        # is a secret, which its client would log.
        "httpx": {"level": "WARNING"},
        "slack_sdk": {"level": "WARNING"},
        # The server of the web process would write its faults by itself, with all that they quote.
        "uvicorn": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
        "uvicorn.error": {"handlers": [], "level": "WARNING", "propagate": True},
    },
    "root": {"handlers": ["stderr"], "level": _text("COUNTERFOIL_LOG_LEVEL", "INFO").upper()},
}
