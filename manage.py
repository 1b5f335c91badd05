#!/usr/bin/env python
from __future__ import annotations

import os
import sys

from console.installation import fill_environment


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    fill_environment(sys.argv[1:])
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
