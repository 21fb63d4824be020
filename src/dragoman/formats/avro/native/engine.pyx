# cython: language_level=3, binding=False, cdivision=True
"""Avro codecs in C: trees of small nodes, each of which reads or writes one kind of value.

A node does only what is plain. On any doubt it raises, and the Python codec does the whole message again: it
alone knows the odd cases and the words of the errors. So a node must succeed only where Python does, with an
equal result, and must never touch a byte that it has not checked.

The planners, ``reading.py`` and ``writing.py``, put the trees together. Nodes do not change afterwards.
"""

from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_CheckExact,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from cpython.datetime cimport (
    PyDate_CheckExact,
    PyDateTime_Check,
    PyDateTime_CheckExact,
    PyDelta_CheckExact,
    date_day,
    date_month,
    date_new,
    date_year,
    datetime_day,
    datetime_hour,
    datetime_microsecond,
    datetime_minute,
    datetime_month,
    datetime_new,
    datetime_second,
    datetime_tzinfo,
    datetime_year,
    import_datetime,
    timedelta_days,
    timedelta_microseconds,
    timedelta_seconds,
)
from cpython.dict cimport PyDict_CheckExact, PyDict_Copy, PyDict_GetItemWithError, PyDict_SetItem
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_AsDouble, PyLong_AsLongLong, PyLong_CheckExact
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport (
    PyObject,
    PyObject_GetAttr,
    PyObject_SetAttr,
    PyTypeObject,
    Py_TYPE,
    descrgetfunc,
    descrsetfunc,
)
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8String, PyUnicode_CheckExact, PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy

import datetime as dt
from types import MemberDescriptorType

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX
    double PyFloat_Unpack4(const char* data, int little_endian) except? -1.0
    double PyFloat_Unpack8(const char* data, int little_endian) except? -1.0
    int PyFloat_Pack4(double value, char* data, int little_endian) except -1
    int PyFloat_Pack8(double value, char* data, int little_endian) except -1
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    void* PyUnicode_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)

import_datetime()

cdef enum:
    DEPTH = 200  # what nests deeper is left to Python, which has a limit of its own


class Doubt(Exception):
    """Something here is not plain: the Python codec shall look at it."""


cdef int doubt() except -1:
    raise Doubt


include "calendar.pxi"
include "limits.pxi"
include "reading.pxi"
include "writing.pxi"
