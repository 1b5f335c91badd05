#!/usr/bin/env python
from __future__ import annotations

import os
import sys

from console.local.installation import fill_environment


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    fill_environment(sys.argv[1:])
    if sys.argv[1:2] == ["up"]:
        from console.local.up import main as up

        raise SystemExit(up(sys.argv[2:]))
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
