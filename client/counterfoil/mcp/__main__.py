"""`python -m counterfoil.mcp` is `counterfoil-mcp`."""

from __future__ import annotations

from counterfoil.mcp.command import main

main()
