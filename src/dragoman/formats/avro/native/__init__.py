"""Native codecs: a faster way to the same bytes, values and errors, where the extension was built.

``DRAGOMAN_PURE=1`` switches them off, which helps when hunting a fault.
"""

from __future__ import annotations

import os

try:
    from dragoman.formats.avro.native import engine as engine
except ImportError:
    BUILT = False
else:
    BUILT = True

IN_USE = BUILT and os.environ.get("DRAGOMAN_PURE", "") in ("", "0")
