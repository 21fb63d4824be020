"""Record classes as JSON.

| Python | JSON |
| --- | --- |
| ``bool``, ``int``, ``float``, ``str``, ``None`` | as they are |
| ``bytes`` | string in base64 |
| ``Decimal`` | string with all digits of its scale, so that no reader rounds it |
| ``datetime`` | string as in RFC 3339, in UTC; without a zone if local |
| ``date``, ``time`` | strings ``2026-01-02`` and ``03:04:05.000006`` |
| ``timedelta``, ``Duration`` | string such as ``P1M2DT3.5S`` |
| ``UUID`` | string |
| an enum | string, the member's name |
| ``list``, ``tuple``, ``set`` | array |
| ``dict`` | object |
| a record | object, every field written |
| ``int`` marked as a date, time or timestamp | the number |
"""
