# From values to bytes.

cdef enum:
    ROOM = 1024  # on the stack, enough for most messages


cdef struct Buffer:
    unsigned char* data
    Py_ssize_t size
    Py_ssize_t room
    bint grown  # no longer on the stack
    int depth


cdef int grow(Buffer* out, Py_ssize_t more) except -1:
    cdef Py_ssize_t room
    cdef unsigned char* data
    if more > PY_SSIZE_T_MAX // 2 - out.size:
        raise MemoryError
    room = (out.size + more) * 2
    if out.grown:
        data = <unsigned char*>PyMem_Realloc(out.data, room)
    else:
        data = <unsigned char*>PyMem_Malloc(room)
    if data is NULL:
        raise MemoryError
    if not out.grown:
        memcpy(data, out.data, out.size)
    out.data = data
    out.room = room
    out.grown = True
    return 0


cdef inline int reserve(Buffer* out, Py_ssize_t more) except -1:
    if more > out.room - out.size:
        grow(out, more)
    return 0


cdef inline int put_number(Buffer* out, uint64_t number) except -1:
    """A number whose sign is in the lowest bit."""
    reserve(out, 10)
    while number > 127:
        out.data[out.size] = <unsigned char>(number & 127 | 128)
        out.size += 1
        number >>= 7
    out.data[out.size] = <unsigned char>number
    out.size += 1
    return 0


cdef inline int put_signed(Buffer* out, int64_t number) except -1:
    return put_number(out, (<uint64_t>number << 1) ^ (0 - (<uint64_t>number >> 63)))


cdef inline int put_raw(Buffer* out, const void* data, Py_ssize_t size) except -1:
    reserve(out, size)
    memcpy(out.data + out.size, data, size)
    out.size += size
    return 0


cdef inline int put_sized(Buffer* out, const void* data, Py_ssize_t size) except -1:
    put_number(out, <uint64_t>size << 1)
    return put_raw(out, data, size)


cdef int put_text(Buffer* out, object text) except -1:
    if not PyUnicode_CheckExact(text):
        doubt()
    if PyUnicode_IS_COMPACT_ASCII(text):
        return put_sized(out, PyUnicode_DATA(text), PyUnicode_GET_LENGTH(text))
    data = PyUnicode_AsUTF8String(text)
    return put_sized(out, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


cdef inline int go_in(Buffer* out) except -1:
    if out.depth == 0:
        doubt()
    out.depth -= 1
    return 0


cdef class Writer:
    """Writes one value."""

    cdef int write(self, object value, Buffer* out) except -1:
        raise Doubt


cdef class WriteNull(Writer):
    cdef int write(self, object value, Buffer* out) except -1:
        if value is not None:
            doubt()
        return 0


cdef class WriteBoolean(Writer):
    cdef int write(self, object value, Buffer* out) except -1:
        if value is True:
            return put_number(out, 1)
        if value is not False:
            doubt()
        return put_number(out, 0)


cdef class WriteWhole(Writer):
    cdef bint small

    def __init__(self, bint small):
        self.small = small

    cdef int put(self, int64_t number, Buffer* out) except -1:
        if self.small and number != <int32_t>number:
            doubt()
        return put_signed(out, number)

    cdef int write(self, object value, Buffer* out) except -1:
        if not PyLong_CheckExact(value):
            doubt()
        return self.put(PyLong_AsLongLong(value), out)


cdef class WriteDate(WriteWhole):
    """``plain`` values may be the number of days."""

    cdef bint plain

    def __init__(self, bint small, bint plain):
        self.small = small
        self.plain = plain

    cdef int write(self, object value, Buffer* out) except -1:
        if PyDate_CheckExact(value):
            return self.put(day_number(date_year(value), date_month(value), date_day(value)), out)
        if not self.plain or not PyLong_CheckExact(value):
            doubt()
        return self.put(PyLong_AsLongLong(value), out)


cdef class WriteMoment(WriteWhole):
    """``plain`` values may be the number."""

    cdef bint plain
    cdef bint local
    cdef int64_t per_second

    def __init__(self, bint small, bint plain, int64_t per_second, bint local):
        if per_second not in (1000, 1000000, 1000000000):
            raise ValueError("There is no such unit.")
        self.small = small
        self.plain = plain
        self.per_second = per_second
        self.local = local

    cdef int write(self, object value, Buffer* out) except -1:
        if self.plain and PyLong_CheckExact(value):
            return self.put(PyLong_AsLongLong(value), out)
        return self.put(parts_since(value, self.per_second, self.local), out)


cdef double as_double(object value) except? -1.0:
    if PyFloat_CheckExact(value):
        return PyFloat_AS_DOUBLE(value)
    if not PyLong_CheckExact(value):
        doubt()
    return PyLong_AsDouble(value)


cdef class WriteFloat(Writer):
    cdef int write(self, object value, Buffer* out) except -1:
        reserve(out, 4)
        PyFloat_Pack4(as_double(value), <char*>out.data + out.size, 1)
        out.size += 4
        return 0


cdef class WriteDouble(Writer):
    cdef int write(self, object value, Buffer* out) except -1:
        reserve(out, 8)
        PyFloat_Pack8(as_double(value), <char*>out.data + out.size, 1)
        out.size += 8
        return 0


cdef class WriteText(Writer):
    cdef int write(self, object value, Buffer* out) except -1:
        return put_text(out, value)


cdef class WriteBytes(Writer):
    cdef int write(self, object value, Buffer* out) except -1:
        if not PyBytes_CheckExact(value):
            doubt()
        return put_sized(out, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))


cdef class WriteFixed(Writer):
    cdef Py_ssize_t size

    def __init__(self, Py_ssize_t size):
        self.size = size

    cdef int write(self, object value, Buffer* out) except -1:
        if not PyBytes_CheckExact(value) or PyBytes_GET_SIZE(value) != self.size:
            doubt()
        return put_raw(out, PyBytes_AS_STRING(value), self.size)


cdef class WriteSymbol(Writer):
    """An enum whose values are text. ``indexes`` are by symbol."""

    cdef dict indexes

    def __init__(self, dict indexes not None):
        self.indexes = indexes

    cdef int write(self, object value, Buffer* out) except -1:
        cdef uint64_t index
        if not PyUnicode_CheckExact(value):
            doubt()
        index = self.indexes[value]
        return put_number(out, index << 1)


cdef class WriteMember(Writer):
    """An enum whose values are members of a class. ``indexes`` are in the order of ``members``."""

    cdef tuple members
    cdef tuple indexes

    def __init__(self, members, indexes):
        self.members = tuple(members)
        self.indexes = tuple(indexes)
        if len(self.members) != len(self.indexes):
            raise ValueError("Each member has an index.")

    cdef int write(self, object value, Buffer* out) except -1:
        cdef Py_ssize_t place
        cdef uint64_t index
        # A member's own hash is slow; there are never many.
        for place in range(PyTuple_GET_SIZE(self.members)):
            if PyTuple_GET_ITEM(self.members, place) == <PyObject*>value:
                index = <object>PyTuple_GET_ITEM(self.indexes, place)
                return put_number(out, index << 1)
        return doubt()


cdef class WriteOptional(Writer):
    """A union in which all but ``None`` goes one way. Without a null branch, ``null`` is -1."""

    cdef int64_t null
    cdef int64_t index
    cdef Writer inner

    def __init__(self, int64_t null, int64_t index, Writer inner not None):
        self.null = null
        self.index = index
        self.inner = inner

    cdef int write(self, object value, Buffer* out) except -1:
        if value is None:
            if self.null < 0:
                doubt()
            return put_signed(out, self.null)
        go_in(out)
        put_signed(out, self.index)
        self.inner.write(value, out)
        out.depth += 1
        return 0


cdef class WriteUnion(Writer):
    """``pick`` is a Python function that tells the branch of a value."""

    cdef object pick
    cdef dict branches

    def __init__(self, pick, dict branches not None):
        self.pick = pick
        self.branches = {index: <Writer?>branch for index, branch in branches.items()}

    cdef int write(self, object value, Buffer* out) except -1:
        go_in(out)
        index = self.pick(value)
        branch = self.branches[index]
        put_signed(out, index)
        (<Writer>branch).write(value, out)
        out.depth += 1
        return 0


cdef class WriteArray(Writer):
    cdef Writer item

    def __init__(self, Writer item not None):
        self.item = item

    cdef int write(self, object value, Buffer* out) except -1:
        cdef Py_ssize_t count = 0
        cdef list items
        if type(value) is list:
            items = value
        elif type(value) is tuple or type(value) is set or type(value) is frozenset:
            items = list(value)
        else:
            doubt()
        go_in(out)
        if items:
            count = len(items)
            put_signed(out, count)
            # A property of an item may do anything, even to this list: Cython checks each step.
            for item in items:
                self.item.write(item, out)
                count -= 1
        if count != 0:
            doubt()
        out.depth += 1
        return put_number(out, 0)


cdef class WriteMap(Writer):
    cdef Writer item

    def __init__(self, Writer item not None):
        self.item = item

    cdef int write(self, object value, Buffer* out) except -1:
        if not PyDict_CheckExact(value):
            doubt()
        go_in(out)
        if value:
            put_signed(out, len(<dict>value))
            for key, item in (<dict>value).items():
                put_text(out, key)
                self.item.write(item, out)
        out.depth += 1
        return put_number(out, 0)


cdef class Part:
    """A field: its writer, and the key, attribute or slot in which its value is."""

    cdef Writer writer
    cdef object place
    cdef descrgetfunc get
    cdef object default
    cdef bint given

    def __init__(self, Writer writer not None, place, *default):
        """``default`` is for a key that is missing; with no place at all it is the value."""
        self.writer = writer
        self.place = place
        self.given = len(default) == 1
        self.default = default[0] if default else None
        self.get = NULL
        if type(place) is MemberDescriptorType:
            self.get = Py_TYPE(place).tp_descr_get


cdef class WriteFields(Writer):
    """What records share. ``complete`` comes later, since a record may contain itself."""

    cdef tuple parts

    def complete(self, parts):
        self.parts = tuple([<Part?>part for part in parts])


cdef class WriteDict(WriteFields):
    cdef int write(self, object value, Buffer* out) except -1:
        cdef Py_ssize_t index, written = 0
        cdef Part part
        cdef PyObject* found
        if not PyDict_CheckExact(value) or self.parts is None:
            doubt()
        go_in(out)
        for index in range(PyTuple_GET_SIZE(self.parts)):
            part = <Part>PyTuple_GET_ITEM(self.parts, index)
            found = PyDict_GetItemWithError(value, part.place)
            if found is not NULL:
                item = <object>found
                written += 1
            elif part.given:
                item = part.default
            else:
                doubt()
            part.writer.write(item, out)
        # A key that is no field is not to be lost.
        if written != len(<dict>value):
            doubt()
        out.depth += 1
        return 0


cdef class WriteObject(WriteFields):
    cdef object cls

    def __init__(self, cls):
        self.cls = cls

    cdef int write(self, object value, Buffer* out) except -1:
        cdef Py_ssize_t index
        cdef Part part
        if type(value) is not self.cls or self.parts is None:
            doubt()
        go_in(out)
        for index in range(PyTuple_GET_SIZE(self.parts)):
            part = <Part>PyTuple_GET_ITEM(self.parts, index)
            if part.get is not NULL:
                item = part.get(part.place, value, self.cls)
            elif part.given:
                item = part.default
            else:
                item = PyObject_GetAttr(value, part.place)
            part.writer.write(item, out)
        out.depth += 1
        return 0


cdef class WriteVia(Writer):
    """Writes what a Python function makes of the value."""

    cdef Writer inner
    cdef object function

    def __init__(self, Writer inner not None, function):
        self.inner = inner
        self.function = function

    cdef int write(self, object value, Buffer* out) except -1:
        return self.inner.write(self.function(value), out)


cdef class WriteLimited(Writer):
    cdef Writer inner
    cdef Limits limits

    def __init__(self, Writer inner not None, Limits limits not None):
        self.inner = inner
        self.limits = limits

    cdef int write(self, object value, Buffer* out) except -1:
        self.limits.check(value)
        return self.inner.write(value, out)


cdef class Encoder:
    """``python`` encodes what this one does not, with the same header in front."""

    cdef Writer root
    cdef object python
    cdef bytes header

    def __init__(self, Writer root not None, python, bytes header not None=b""):
        self.root = root
        self.python = python
        self.header = header

    def encode(self, value):
        cdef unsigned char[ROOM] stack
        cdef Buffer out
        cdef bytes made = None
        out.data = stack
        out.size = 0
        out.room = ROOM
        out.grown = False
        out.depth = DEPTH
        try:
            put_raw(&out, PyBytes_AS_STRING(self.header), PyBytes_GET_SIZE(self.header))
            self.root.write(value, &out)
            made = PyBytes_FromStringAndSize(<char*>out.data, out.size)
        except Exception:
            pass
        finally:
            if out.grown:
                PyMem_Free(out.data)
        # Not inside, or the error that Python raises would carry the one from here along.
        return self.python(value) if made is None else made
