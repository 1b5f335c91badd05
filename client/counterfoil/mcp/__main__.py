"""`python -m counterfoil.mcp` is `counterfoil-mcp`."""

from __future__ import annotations


def main() -> None:
    """Run `counterfoil-mcp`, or print what it lacks."""
    try:
        from counterfoil.mcp.command import main as run
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package == "counterfoil":
            raise
        raise SystemExit(
            f"counterfoil-mcp: the package {package} is not installed. Install the gateway with"
            " `pip install counterfoil-mcp`; in a checkout, `make install` brings it."
        ) from None
    run()


if __name__ == "__main__":
    main()
