"""The commands of the console: `manage.py` in a checkout, `counterfoil` where the distribution is installed."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from console.local.installation import fill_environment

USAGE = """usage: counterfoil [--folder FOLDER] COMMAND ...

  demo  from nothing to a refund that was held, approved, lied about and caught, told step by step
  up    the whole console on this machine until Ctrl-C

Every command that the guides call `manage.py COMMAND` is here, too. Data is in FOLDER: COUNTERFOIL_VAR or `var` in the
current folder, and `counterfoil-demo` for the demo. `counterfoil COMMAND --help` lists the options of one.
"""


def main() -> None:
    """Run `up`, `demo`, or one of Django's commands."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    fill_environment(sys.argv[1:])
    if sys.argv[1:2] == ["up"]:
        from console.local.up import main as up

        raise SystemExit(up(sys.argv[2:]))
    if sys.argv[1:2] == ["demo"]:
        from console.local.demo import main as demo

        raise SystemExit(demo(sys.argv[2:]))
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


def run_counterfoil() -> None:
    """Do as `main`, with the data in a folder of the user's."""
    parser = argparse.ArgumentParser(prog="counterfoil", add_help=False, allow_abbrev=False)
    parser.add_argument("--folder", type=Path)
    chosen, sys.argv[1:] = parser.parse_known_args()
    if sys.argv[1:] in ([], ["-h"], ["--help"], ["help"]):
        sys.stdout.write(USAGE)
        return
    usual = "counterfoil-demo" if sys.argv[1] == "demo" else "var"
    folder = chosen.folder or Path(os.environ.get("COUNTERFOIL_VAR") or usual)
    os.environ["COUNTERFOIL_VAR"] = str(folder.absolute())
    main()


if __name__ == "__main__":
    main()
