"""`python -m counterfoil.gateway` is `counterfoil-gateway`."""

from __future__ import annotations


def main() -> None:
    """Run `counterfoil-gateway`, or print what it lacks."""
    try:
        from counterfoil.gateway.command import main as run
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package == "counterfoil":
            raise
        raise SystemExit(
            f"counterfoil-gateway: the package {package} is not installed. Install the gateway with"
            " `pip install counterfoil-gateway`; in a checkout, `make install` brings it."
        ) from None
    run()


if __name__ == "__main__":
    main()
