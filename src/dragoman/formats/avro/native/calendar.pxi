# Days and moments since 1970 as calendar dates, and back. The calendar is Python's: Gregorian, years 1 to 9999.

cdef enum:
    FIRST_DAY = -719162  # 0001-01-01
    LAST_DAY = 2932896  # 9999-12-31
    DAYS_TO_MARCH = 719468  # from 0000-03-01, where years are taken to begin, so that a leap day comes last
    DAYS_OF_ERA = 146097  # 400 years

cdef object UTC = dt.UTC
cdef object EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
cdef object LOCAL_EPOCH = dt.datetime(1970, 1, 1)


cdef struct Day:
    int year
    int month
    int day


cdef inline int64_t floored(int64_t number, int64_t divisor) noexcept:
    """Division as Python has it; C rounds towards zero."""
    return number // divisor - (1 if number % divisor < 0 else 0)


cdef Day calendar_day(int64_t days) noexcept:
    """The date of a day between the first and the last."""
    cdef int64_t era, day, year, month
    cdef Day found
    days += DAYS_TO_MARCH
    era = floored(days, DAYS_OF_ERA)
    day = days - era * DAYS_OF_ERA
    # A leap day ends every fourth year but the hundredth, and the whole era.
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    # From March on, five months have 153 days.
    month = (5 * day + 2) // 153
    found.day = <int>(day - (153 * month + 2) // 5 + 1)
    found.month = <int>(month + 3 if month < 10 else month - 9)
    found.year = <int>(year + era * 400 + (1 if month >= 10 else 0))
    return found


cdef int64_t day_number(int64_t year, int64_t month, int64_t day) noexcept:
    """Days since 1970-01-01."""
    cdef int64_t era
    if month <= 2:
        year -= 1
        month += 9
    else:
        month -= 3
    era = floored(year, 400)
    year -= era * 400
    return era * DAYS_OF_ERA + year * 365 + year // 4 - year // 100 + (153 * month + 2) // 5 + day - 1 - DAYS_TO_MARCH


cdef object moment_of(int64_t number, int64_t per_second, object zone):
    """The datetime at so many parts of a second since 1970."""
    cdef int64_t seconds = floored(number, per_second)
    cdef int64_t rest = number % per_second
    cdef int64_t days = floored(seconds, 86400)
    cdef int second = <int>(seconds - days * 86400)
    cdef int micros = <int>((rest + per_second if rest < 0 else rest) * 1000000 // per_second)
    cdef Day day
    if not FIRST_DAY <= days <= LAST_DAY:
        doubt()
    day = calendar_day(days)
    return datetime_new(
        day.year, day.month, day.day, second // 3600, second // 60 % 60, second % 60, micros, zone
    )


cdef int64_t parts_since(object value, int64_t per_second, bint local) except? -1:
    """Parts of a second from 1970 to a datetime."""
    cdef int64_t seconds, micros
    if not PyDateTime_Check(value):
        doubt()
    if PyDateTime_CheckExact(value) and datetime_tzinfo(value) is (None if local else UTC):
        seconds = day_number(datetime_year(value), datetime_month(value), datetime_day(value)) * 86400
        seconds += datetime_hour(value) * 3600 + datetime_minute(value) * 60 + datetime_second(value)
        micros = datetime_microsecond(value)
    else:
        past = value - (LOCAL_EPOCH if local else EPOCH)
        if not PyDelta_CheckExact(past):
            doubt()
        seconds = <int64_t>timedelta_days(past) * 86400 + timedelta_seconds(past)
        micros = timedelta_microseconds(past)
    # Nanoseconds have 64 bits for the years 1678 to 2261 only.
    if per_second > 1000000 and not -9000000000 < seconds < 9000000000:
        doubt()
    return seconds * per_second + micros * per_second // 1000000
