"""`make check`: every template is formatted and compiles, so that no page breaks on a typing error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    files = sorted(path for path in (ROOT / "templates").rglob("*") if path.suffix in (".html", ".txt"))
    djade = Path(sys.executable).with_name("djade")
    pages = [str(path) for path in files if path.suffix == ".html"]
    badly_formatted = bool(pages) and subprocess.call([djade, "--target-version", "5.2", "--check", *pages]) != 0
    broken = [message for path in files if (message := _broken(path.relative_to(ROOT / "templates")))]
    sys.stderr.writelines(f"{message}\n" for message in broken)
    sys.stdout.write(f"{len(files)} templates, {len(broken)} broken.\n")
    return 1 if badly_formatted or broken else 0


def _broken(name: Path) -> str:
    from django.template import TemplateSyntaxError
    from django.template.loader import get_template

    try:
        get_template(str(name))
    except TemplateSyntaxError as error:
        return f"templates/{name}: {error}"
    return ""


if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.offline"
    import django

    django.setup()
    sys.exit(main())
