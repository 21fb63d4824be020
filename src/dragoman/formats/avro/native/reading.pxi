# From bytes to values.

cdef struct Cursor:
    const unsigned char* at
    const unsigned char* end
    int depth


cdef inline int take_byte(Cursor* cursor) except -1:
    if cursor.at == cursor.end:
        doubt()
    cursor.at += 1
    return cursor.at[-1]


cdef int take_number(Cursor* cursor, uint64_t* number) except -1:
    """A number of up to 64 bits, its sign still in the lowest."""
    cdef uint64_t byte = take_byte(cursor)
    cdef uint64_t value = byte & 127
    cdef int shift = 0
    while byte > 127:
        shift += 7
        byte = take_byte(cursor)
        if shift == 63 and byte > 1:
            doubt()
        value |= (byte & 127) << shift
    number[0] = value
    return 0


cdef inline int64_t signed(uint64_t number) noexcept:
    return <int64_t>((number >> 1) ^ (0 - (number & 1)))


cdef inline int need(Cursor* cursor, Py_ssize_t size) except -1:
    if size > cursor.end - cursor.at:
        doubt()
    return 0


cdef Py_ssize_t take_length(Cursor* cursor) except -1:
    """The length of a text, whose bytes are there."""
    cdef uint64_t number
    take_number(cursor, &number)
    if number & 1 or number >> 1 > <uint64_t>(cursor.end - cursor.at):
        doubt()
    return <Py_ssize_t>(number >> 1)


cdef inline Py_ssize_t take_index(Cursor* cursor, Py_ssize_t count) except -1:
    """Which branch or symbol it is. Python reads one byte where one is enough."""
    cdef uint64_t number
    if count > 63:
        take_number(cursor, &number)
    else:
        number = take_byte(cursor)
    if number & 1 or number >> 1 >= <uint64_t>count:
        doubt()
    return <Py_ssize_t>(number >> 1)


cdef Py_ssize_t take_count(Cursor* cursor, Py_ssize_t least) except -1:
    """How many items the next block has, for which the bytes are there: ``least`` for each, at least one.

    0 ends the blocks, also if it is written with more bytes than it needs.
    """
    cdef uint64_t number, size, count
    take_number(cursor, &number)
    if number & 1:
        count = (number >> 1) + 1
        take_number(cursor, &size)
        if size & 1 or size >> 1 > <uint64_t>(cursor.end - cursor.at):
            doubt()
    else:
        count = number >> 1
    if count > <uint64_t>(cursor.end - cursor.at) // <uint64_t>least:
        doubt()
    return <Py_ssize_t>count


cdef inline int enter(Cursor* cursor) except -1:
    if cursor.depth == 0:
        doubt()
    cursor.depth -= 1
    return 0


cdef class Reader:
    """Reads one value. Those that pass over it give ``None``."""

    cdef object read(self, Cursor* cursor):
        raise Doubt


cdef class ReadNull(Reader):
    cdef object read(self, Cursor* cursor):
        return None


cdef class ReadBoolean(Reader):
    cdef object read(self, Cursor* cursor):
        cdef int byte = take_byte(cursor)
        if byte > 1:
            doubt()
        return byte == 1


cdef class ReadWhole(Reader):
    """An int or a long; ``real`` makes a float of it."""

    cdef bint small
    cdef bint real

    def __init__(self, bint small, bint real=False):
        self.small = small
        self.real = real

    cdef int64_t number(self, Cursor* cursor) except? -1:
        cdef uint64_t number
        take_number(cursor, &number)
        if self.small and number >> 32:
            doubt()
        return signed(number)

    cdef object read(self, Cursor* cursor):
        cdef int64_t number = self.number(cursor)
        if self.real:
            return <double>number
        return number


cdef class ReadDate(ReadWhole):
    cdef object read(self, Cursor* cursor):
        cdef int64_t days = self.number(cursor)
        cdef Day day
        if not FIRST_DAY <= days <= LAST_DAY:
            doubt()
        day = calendar_day(days)
        return date_new(day.year, day.month, day.day)


cdef class ReadMoment(ReadWhole):
    cdef int64_t per_second
    cdef object zone

    def __init__(self, bint small, int64_t per_second, bint local):
        if per_second not in (1000, 1000000, 1000000000):
            raise ValueError("There is no such unit.")
        self.small = small
        self.per_second = per_second
        self.zone = None if local else UTC

    cdef object read(self, Cursor* cursor):
        return moment_of(self.number(cursor), self.per_second, self.zone)


cdef class ReadFloat(Reader):
    cdef object read(self, Cursor* cursor):
        need(cursor, 4)
        cursor.at += 4
        return PyFloat_Unpack4(<const char*>cursor.at - 4, 1)


cdef class ReadDouble(Reader):
    cdef object read(self, Cursor* cursor):
        need(cursor, 8)
        cursor.at += 8
        return PyFloat_Unpack8(<const char*>cursor.at - 8, 1)


cdef class ReadText(Reader):
    cdef object read(self, Cursor* cursor):
        cdef Py_ssize_t size = take_length(cursor)
        cursor.at += size
        return PyUnicode_DecodeUTF8(<char*>cursor.at - size, size, NULL)


cdef class ReadBytes(Reader):
    cdef object read(self, Cursor* cursor):
        cdef Py_ssize_t size = take_length(cursor)
        cursor.at += size
        return PyBytes_FromStringAndSize(<char*>cursor.at - size, size)


cdef class ReadFixed(Reader):
    cdef Py_ssize_t size

    def __init__(self, Py_ssize_t size):
        if size < 0:
            raise ValueError("There is no such size.")
        self.size = size

    cdef object read(self, Cursor* cursor):
        need(cursor, self.size)
        cursor.at += self.size
        return PyBytes_FromStringAndSize(<char*>cursor.at - self.size, self.size)


cdef class ReadEnum(Reader):
    """``values`` by the writer's index, ``None`` where the reader knows no such symbol."""

    cdef tuple values

    def __init__(self, values):
        self.values = tuple(values)

    cdef object read(self, Cursor* cursor):
        value = <object>PyTuple_GET_ITEM(self.values, take_index(cursor, PyTuple_GET_SIZE(self.values)))
        if value is None:
            doubt()
        return value


cdef class ReadUnion(Reader):
    """``branches`` by the writer's index, ``None`` for which the class has no place."""

    cdef tuple branches

    def __init__(self, branches):
        self.branches = tuple([<Reader?>branch if branch is not None else None for branch in branches])

    cdef object read(self, Cursor* cursor):
        cdef Py_ssize_t index = take_index(cursor, PyTuple_GET_SIZE(self.branches))
        branch = <object>PyTuple_GET_ITEM(self.branches, index)
        if branch is None:
            doubt()
        enter(cursor)
        value = (<Reader>branch).read(cursor)
        cursor.depth += 1
        return value


cdef class ReadArray(Reader):
    cdef Reader item
    cdef Py_ssize_t least

    def __init__(self, Reader item not None, Py_ssize_t least):
        if least < 1:
            raise ValueError("Items without bytes are left to Python.")
        self.item = item
        self.least = least

    cdef object read(self, Cursor* cursor):
        cdef list items = []
        cdef Py_ssize_t count, index
        enter(cursor)
        while True:
            count = take_count(cursor, self.least)
            if count == 0:
                break
            for index in range(count):
                items.append(self.item.read(cursor))
        cursor.depth += 1
        return items


cdef class ReadMap(Reader):
    cdef Reader item
    cdef Py_ssize_t least

    def __init__(self, Reader item not None, Py_ssize_t least):
        if least < 1:
            raise ValueError("A key has a byte at least.")
        self.item = item
        self.least = least

    cdef object read(self, Cursor* cursor):
        cdef dict items = {}
        cdef Py_ssize_t count, size, index
        enter(cursor)
        while True:
            count = take_count(cursor, self.least)
            if count == 0:
                break
            for index in range(count):
                size = take_length(cursor)
                cursor.at += size
                key = PyUnicode_DecodeUTF8(<char*>cursor.at - size, size, NULL)
                PyDict_SetItem(items, key, self.item.read(cursor))
        cursor.depth += 1
        return items


cdef class Step:
    """A field of a record in the writer's order, and where its value goes: nowhere if it is passed over.

    The place is a key, an attribute's name, or the descriptor of a slot.
    """

    cdef Reader reader
    cdef object place
    cdef bint kept
    cdef descrsetfunc assign

    def __init__(self, Reader reader not None, place=None):
        self.reader = reader
        self.place = place
        self.kept = place is not None
        self.assign = NULL
        if type(place) is MemberDescriptorType:
            self.assign = Py_TYPE(place).tp_descr_set


cdef class ReadFields(Reader):
    """What records share. ``complete`` comes later, since a record may contain itself.

    ``makers`` are places and functions, for the defaults of which every message gets its own.
    """

    cdef tuple steps
    cdef tuple makers

    def __init__(self):
        self.steps = ()
        self.makers = ()

    cdef int fill(self, steps, makers) except -1:
        self.steps = tuple([<Step?>step for step in steps])
        self.makers = tuple([(place, make) for place, make in makers])
        return 0


cdef class ReadDict(ReadFields):
    """A record as a dict. ``template`` has all keys in their order, and the defaults that can be shared."""

    cdef dict template

    def complete(self, steps, makers, dict template not None):
        self.template = template
        self.fill(steps, makers)

    cdef object read(self, Cursor* cursor):
        cdef dict made
        cdef Py_ssize_t index
        cdef Step step
        if self.template is None:
            doubt()
        enter(cursor)
        made = PyDict_Copy(self.template)
        for index in range(PyTuple_GET_SIZE(self.steps)):
            step = <Step>PyTuple_GET_ITEM(self.steps, index)
            value = step.reader.read(cursor)
            if step.kept:
                PyDict_SetItem(made, step.place, value)
        for key, make in self.makers:
            PyDict_SetItem(made, key, make())
        cursor.depth += 1
        return made


cdef class ReadCall(Reader):
    """A record whose class is called with its fields, by position or by keyword."""

    cdef object cls
    cdef bint by_position
    cdef ReadDict fields

    def __init__(self, cls, bint by_position, ReadDict fields not None):
        self.cls = cls
        self.by_position = by_position
        self.fields = fields

    cdef object read(self, Cursor* cursor):
        cdef dict values = self.fields.read(cursor)
        if self.by_position:
            return self.cls(*values.values())
        return self.cls(**values)


cdef class ReadObject(ReadFields):
    """A record whose class needs no constructor: its attributes are set, slots directly."""

    cdef object cls
    cdef tuple shared

    def __init__(self, cls):
        # Raises if it is no class, or not one that can be made like this.
        object.__new__(cls)
        self.cls = cls
        self.shared = ()

    def complete(self, steps, makers, shared):
        self.shared = tuple([(name, value) for name, value in shared])
        self.fill(steps, makers)

    cdef object read(self, Cursor* cursor):
        cdef Py_ssize_t index
        cdef Step step
        enter(cursor)
        made = (<PyTypeObject*>object).tp_new(<type>self.cls, <PyObject*>(), NULL)
        for index in range(PyTuple_GET_SIZE(self.steps)):
            step = <Step>PyTuple_GET_ITEM(self.steps, index)
            value = step.reader.read(cursor)
            if step.assign is not NULL:
                step.assign(step.place, made, value)
            elif step.kept:
                PyObject_SetAttr(made, step.place, value)
        for name, value in self.shared:
            PyObject_SetAttr(made, name, value)
        for name, make in self.makers:
            PyObject_SetAttr(made, name, make())
        cursor.depth += 1
        return made


cdef class ReadVia(Reader):
    """What a Python function makes of another reader's value."""

    cdef Reader inner
    cdef object function

    def __init__(self, Reader inner not None, function):
        self.inner = inner
        self.function = function

    cdef object read(self, Cursor* cursor):
        return self.function(self.inner.read(cursor))


cdef class ReadLimited(Reader):
    cdef Reader inner
    cdef Limits limits

    def __init__(self, Reader inner not None, Limits limits not None):
        self.inner = inner
        self.limits = limits

    cdef object read(self, Cursor* cursor):
        value = self.inner.read(cursor)
        self.limits.check(value)
        return value


cdef class SkipText(Reader):
    cdef object read(self, Cursor* cursor):
        cursor.at += take_length(cursor)
        return None


cdef class SkipFixed(Reader):
    cdef Py_ssize_t size

    def __init__(self, Py_ssize_t size):
        if size < 0:
            raise ValueError("There is no such size.")
        self.size = size

    cdef object read(self, Cursor* cursor):
        need(cursor, self.size)
        cursor.at += self.size
        return None


cdef class SkipEnum(Reader):
    cdef uint64_t count

    def __init__(self, uint64_t count):
        self.count = count

    cdef object read(self, Cursor* cursor):
        cdef uint64_t number
        take_number(cursor, &number)
        if number & 1 or number >> 1 >= self.count:
            doubt()
        return None


cdef class SkipUnion(Reader):
    cdef tuple branches

    def __init__(self, branches):
        self.branches = tuple([<Reader?>branch for branch in branches])

    cdef object read(self, Cursor* cursor):
        cdef uint64_t number
        take_number(cursor, &number)
        if number & 1 or number >> 1 >= <uint64_t>PyTuple_GET_SIZE(self.branches):
            doubt()
        enter(cursor)
        (<Reader>PyTuple_GET_ITEM(self.branches, <Py_ssize_t>(number >> 1))).read(cursor)
        cursor.depth += 1
        return None


cdef class SkipItems(Reader):
    """The items of an array, or of a map, which have keys."""

    cdef Reader item
    cdef Py_ssize_t least
    cdef bint keys

    def __init__(self, Reader item not None, Py_ssize_t least, bint keys):
        if least < 1:
            raise ValueError("Items without bytes are left to Python.")
        self.item = item
        self.least = least
        self.keys = keys

    cdef object read(self, Cursor* cursor):
        cdef Py_ssize_t count, index
        enter(cursor)
        while True:
            count = take_count(cursor, self.least)
            if count == 0:
                break
            for index in range(count):
                if self.keys:
                    cursor.at += take_length(cursor)
                self.item.read(cursor)
        cursor.depth += 1
        return None


cdef class SkipRecord(Reader):
    cdef tuple fields

    def __init__(self):
        self.fields = None

    def complete(self, fields):
        self.fields = tuple([<Reader?>field for field in fields])

    cdef object read(self, Cursor* cursor):
        cdef Py_ssize_t index
        if self.fields is None:
            doubt()
        enter(cursor)
        for index in range(PyTuple_GET_SIZE(self.fields)):
            (<Reader>PyTuple_GET_ITEM(self.fields, index)).read(cursor)
        cursor.depth += 1
        return None


cdef class Decoder:
    """``python`` decodes what this one does not, from the same bytes. The first ``skipped`` are a header."""

    cdef Reader root
    cdef object python
    cdef Py_ssize_t skipped

    def __init__(self, Reader root not None, python, Py_ssize_t skipped=0):
        if skipped < 0:
            raise ValueError("A header has no bytes less than none.")
        self.root = root
        self.python = python
        self.skipped = skipped

    def decode(self, data):
        cdef Cursor cursor
        if PyBytes_CheckExact(data) and PyBytes_GET_SIZE(data) >= self.skipped:
            cursor.at = <const unsigned char*>PyBytes_AS_STRING(data) + self.skipped
            cursor.end = <const unsigned char*>PyBytes_AS_STRING(data) + PyBytes_GET_SIZE(data)
            cursor.depth = DEPTH
            try:
                value = self.root.read(&cursor)
                if cursor.at == cursor.end:
                    return value
            except Exception:
                # Not from here, or the error that Python raises would carry this one along.
                pass
        return self.python(data)
