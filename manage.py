#!/usr/bin/env python
from __future__ import annotations

from console.local.command_line import main

if __name__ == "__main__":
    main()
