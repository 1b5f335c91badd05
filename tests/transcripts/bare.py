"""The settings with which `counterfoil-transcripts` runs where no console is."""

from __future__ import annotations

USE_I18N = False
USE_TZ = True
