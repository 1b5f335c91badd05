"""The place where exports are kept: the folder in which they are made, or a bucket of S3-compatible storage.

A bucket also keeps the pieces of an export that is being made, so that a worker on another host goes on with it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.core.files import File
from django.core.files.storage import Storage, storages

from ledger.record.rules.refusals import Refused


class StorageAway(Refused):
    """The storage of exports does not answer, or refuses this console; no export is lost. Try again in a moment."""

    code = "EXPORT_STORAGE_AWAY"
    status = 503


def keep(file: Path) -> None:
    """Keep a file that was written whole; nothing to do without a bucket."""
    with _bucket() as bucket:
        if bucket is not None:
            with file.open("rb") as data:
                bucket.save(_key(file), File(data))


def keep_elsewhere(file: Path) -> None:
    """Keep a file, and where there is a bucket not here."""
    keep(file)
    if settings.COUNTERFOIL_EXPORT_BUCKET:
        file.unlink()


def fetch(file: Path) -> bool:
    """Return whether a file is here, once it was fetched from the bucket if it is only there."""
    if file.exists():
        return True
    with _bucket() as bucket:
        if bucket is None or not bucket.exists(_key(file)):
            return False
        part = file.with_name(f"{file.name}.part")
        part.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with bucket.open(_key(file)) as data, part.open("wb") as out:
            shutil.copyfileobj(data, out)
        part.replace(file)
    return True


def open_kept(file: Path) -> IO[Any] | None:
    """Open a file that is kept; None if it is not."""
    with _bucket() as bucket:
        if bucket is None:
            return file.open("rb") if file.exists() else None
        return bucket.open(_key(file)) if bucket.exists(_key(file)) else None


def kept_names(folder: Path) -> set[str]:
    """The names of the files and folders that are kept in a folder, here or in the bucket."""
    names = {each.name for each in folder.iterdir()} if folder.is_dir() else set()
    with _bucket() as bucket:
        return names.union(*bucket.listdir(_key(folder))) if bucket is not None else names


def remove(place: Path) -> None:
    """Remove a file, or a folder with its files, here and in the bucket."""
    if place.is_dir():
        shutil.rmtree(place, ignore_errors=True)
    else:
        place.unlink(missing_ok=True)
    with _bucket() as bucket:
        if bucket is not None:
            for name in bucket.listdir(_key(place))[1]:
                bucket.delete(_key(place / name))
            bucket.delete(_key(place))


@contextmanager
def _bucket() -> Iterator[Storage | None]:
    """The bucket, None without one; `StorageAway` if it fails."""
    if not settings.COUNTERFOIL_EXPORT_BUCKET:
        yield None
        return
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield storages["exports"]
    except (BotoCoreError, ClientError) as error:
        raise StorageAway from error


def _key(place: Path) -> str:
    return place.relative_to(settings.COUNTERFOIL_EXPORTS).as_posix()
