"""The gateway: SIMEX envelopes from outside, dropped off and collected; orchestrators inside.

``gateway.Gateway`` runs it, ``http`` and ``sep`` speak with clients, ``envelope`` is the message,
``orchestration`` is for those who answer, ``store`` keeps what waits, ``security`` says who may have it.
"""
