# Constraints. Who breaks one is told by Python.

cdef class Limits:
    """``rules`` are triples: ``(">=", limit, None)`` and the like, ``("length", least, most)`` where ``most``
    may be ``None``, ``("like", search, None)``."""

    cdef tuple rules

    def __init__(self, rules):
        self.rules = tuple(rules)

    cdef int check(self, object value) except -1:
        for word, first, second in self.rules:
            if word == "length":
                fits = first <= len(value) and (second is None or len(value) <= second)
            elif word == "like":
                fits = first(value) is not None
            elif word == ">=":
                fits = value >= first
            elif word == "<=":
                fits = value <= first
            elif word == ">":
                fits = value > first
            elif word == "<":
                fits = value < first
            else:
                fits = False
            if not fits:
                doubt()
        return 0
