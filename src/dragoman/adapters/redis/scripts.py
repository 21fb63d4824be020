"""What runs inside the server, so that it happens at once or not at all."""

from __future__ import annotations

import hashlib
from typing import Any

RENUMBERING = """
local function is_ours(id) return string.sub(id, 1, 2) == '0-' end

local function about(key)
  local found, flat = {}, redis.call('XINFO', 'STREAM', key)
  for index = 1, #flat, 2 do found[flat[index]] = flat[index + 1] end
  return found
end

local function read_by_groups(key)
  local channel, partition = string.match(key, '^(.*):(%d+)$')
  local most = 0
  for _, group in ipairs(redis.call('SMEMBERS', channel .. ':groups')) do
    local record = redis.call('HGET', channel .. ':group:' .. group, partition)
    if record then most = math.max(most, cjson.decode(record).cursor) end
  end
  return most
end

local function fields_of(entry)
  local fields, found, has_time = entry[2], {}, false
  for index = 1, #fields, 2 do
    local name = fields[index]
    if #fields < 4000 or name == 't' or name == 'v' or name == 'k' or name == 'h' then
      found[#found + 1], found[#found + 2] = name, fields[index + 1]
    end
    has_time = has_time or name == 't'
  end
  if not has_time then found[#found + 1], found[#found + 2] = 't', string.match(entry[1], '^%d+') end
  return found
end

local function renumber(key)
  local stream = about(key)
  if is_ours(stream['last-generated-id']) then return end
  local foreign = redis.call('XRANGE', key, '1-0', '+')
  local newest = redis.call('XREVRANGE', key, '(1-0', '-', 'COUNT', 1)[1]
  local last = math.max(1, stream['entries-added'] - #foreign, read_by_groups(key))
  if newest then last = math.max(last, tonumber(string.sub(newest[1], 3))) end
  last = string.format('%.0f', last)
  for _, entry in ipairs(foreign) do redis.call('XDEL', key, entry[1]) end
  redis.call('XSETID', key, '0-' .. last, 'ENTRIESADDED', last, 'MAXDELETEDID', '0-1')
  for _, entry in ipairs(foreign) do redis.call('XADD', key, '0-*', unpack(fields_of(entry))) end
end

local function add(key, ...)
  local id = redis.pcall('XADD', key, '0-*', ...)
  if type(id) ~= 'table' then return id end
  renumber(key)
  return redis.call('XADD', key, '0-*', ...)
end

local function range(key, first, last, count)
  local entries = redis.call('XRANGE', key, first, last, 'COUNT', count)
  if #entries == 0 or is_ours(entries[#entries][1]) then return entries end
  renumber(key)
  return redis.call('XRANGE', key, first, last, 'COUNT', count)
end
"""
"""Our ids are 0-1, 0-2, ...: offset plus one. Another program may have added entries with other ids, such as
the time that ``XADD key *`` writes. These are larger than all of ours: they are last in the stream, and after
them the server refuses the next one of ours. So every script that reads or adds entries goes through
``range`` and ``add``, which give foreign entries the next ids of ours, in their order. An entry without a
time gets that of its id.

The next id has to be larger than any before, even if those entries were removed: larger than the number of
entries ever added, and than what a group has read. It is at least 0-2, so that MAXDELETEDID can be set: the
server does not take 0-0 there, and does not load a stream whose last id is smaller than its deleted one.

A script that fails is not rolled back: nothing may fail after XDEL. Lua cannot pass more than some 8,000
values to a command, so entries with thousands of fields keep ours only."""

CREATE = """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'partitions', ARGV[1], 'retention', ARGV[2], 'settings', ARGV[3])
for number = 0, tonumber(ARGV[1]) - 1 do
  redis.call('XGROUP', 'CREATE', KEYS[1] .. ':' .. number, 'made', '$', 'MKSTREAM')
  redis.call('XGROUP', 'DESTROY', KEYS[1] .. ':' .. number, 'made')
end
return 1
"""
"""A stream is made empty by way of a group. Settings, and one stream per partition."""

ALTER = """
local before = redis.call('HGET', KEYS[1], 'partitions')
if not before then return -1 end
if tonumber(before) > tonumber(ARGV[1]) then return tonumber(before) end
redis.call('HSET', KEYS[1], 'partitions', ARGV[1], 'retention', ARGV[2], 'settings', ARGV[3])
for number = tonumber(before), tonumber(ARGV[1]) - 1 do
  redis.call('XGROUP', 'CREATE', KEYS[1] .. ':' .. number, 'made', '$', 'MKSTREAM')
  redis.call('XGROUP', 'DESTROY', KEYS[1] .. ':' .. number, 'made')
end
return 0
"""

DELETE = """
local partitions = redis.call('HGET', KEYS[1], 'partitions')
if not partitions then return 0 end
for number = 0, tonumber(partitions) - 1 do redis.call('DEL', KEYS[1] .. ':' .. number) end
for _, group in ipairs(redis.call('SMEMBERS', KEYS[1] .. ':groups')) do
  redis.call('DEL', KEYS[1] .. ':group:' .. group)
end
redis.call('DEL', KEYS[1], KEYS[1] .. ':groups', KEYS[1] .. ':delayed')
return 1
"""

APPEND = (
    RENUMBERING
    + """
for _, key in ipairs(KEYS) do
  if redis.call('EXISTS', key) == 0 then return {} end
end
local at, firsts = 1, {}
for number, key in ipairs(KEYS) do
  local last = at + 1 + tonumber(ARGV[at])
  at = at + 1
  for _ = at, last - 1 do
    local shape, id = ARGV[at], nil
    if shape == 'v' then
      id = add(key, 't', ARGV[at + 1], 'v', ARGV[at + 2])
      at = at + 3
    elseif shape == 'vk' then
      id = add(key, 't', ARGV[at + 1], 'v', ARGV[at + 2], 'k', ARGV[at + 3])
      at = at + 4
    else
      local fields = {'t', ARGV[at + 1]}
      for index = 1, #shape do
        fields[#fields + 1] = string.sub(shape, index, index)
        fields[#fields + 1] = ARGV[at + 1 + index]
      end
      id = add(key, unpack(fields))
      at = at + 2 + #shape
    end
    firsts[number] = firsts[number] or id
  end
end
return firsts
"""
)
"""Per stream how many messages, then for each its shape, its timestamp, and what the shape names: ``v`` the
payload, ``k`` the key, ``h`` the headers. Ids are 0-1, 0-2, ...: offset plus one. Nothing is added, and
nothing told, if a stream is gone."""

READ = (
    RENUMBERING
    + """
local found, room, budget = {}, tonumber(ARGV[1]), tonumber(ARGV[2])
for number, key in ipairs(KEYS) do
  local parts, from, last, step = {}, ARGV[2 * number + 1], ARGV[2 * number + 2], 10
  while room > 0 and budget > 0 do
    local before, count = budget, math.min(room, step)
    local entries = range(key, from, last, count)
    for _, entry in ipairs(entries) do
      local time, value, name, headers = '0', false, false, false
      local fields = entry[2]
      for index = 1, #fields, 2 do
        local field = fields[index]
        if field == 'v' then value = fields[index + 1]
        elseif field == 't' then time = fields[index + 1]
        elseif field == 'k' then name = fields[index + 1]
        elseif field == 'h' then headers = fields[index + 1] end
      end
      parts[#parts + 1] = struct.pack('>ddiii', string.sub(entry[1], 3), tonumber(time) or 0,
        value and #value or -1, name and #name or -1, headers and #headers or -1)
      if value then parts[#parts + 1] = value; budget = budget - #value end
      if name then parts[#parts + 1] = name end
      if headers then parts[#parts + 1] = headers; budget = budget - #headers end
      room = room - 1
    end
    if #entries < count then break end
    from = '(' .. entries[#entries][1]
    step = math.max(1, math.min(500, math.floor(budget * count / (before - budget + 1))))
  end
  found[number] = table.concat(parts)
end
return found
"""
)
"""Messages as one string per stream: the driver would spend more time on lists than all else takes. So many
at most, and about so many bytes: large messages are fetched in small steps."""

STAMPS = (
    RENUMBERING
    + """
local found = {}
for _, entry in ipairs(range(KEYS[1], ARGV[1], '+', ARGV[2])) do
  local time = '0'
  for index = 1, #entry[2], 2 do
    if entry[2][index] == 't' then time = entry[2][index + 1] end
  end
  found[#found + 1] = struct.pack('>dd', string.sub(entry[1], 3), tonumber(time) or 0)
end
return table.concat(found)
"""
)

BOUNDS = (
    RENUMBERING
    + """
local found = {}
for number, key in ipairs(KEYS) do
  found[number] = {}
  if redis.call('EXISTS', key) == 1 then
    renumber(key)
    local stream = about(key)
    local first, last = stream['first-entry'], tonumber(string.sub(stream['last-generated-id'], 3))
    found[number] = {first and tonumber(string.sub(first[1], 3)) - 1 or last, last}
  end
end
return found
"""
)
"""Per stream its first offset, and the one after the last there ever was. Nothing for one that is gone."""

SAVE = """
local lasting = tonumber(ARGV[1])
local revisions = {}
if redis.call('EXISTS', KEYS[2]) == 0 then
  for index = 2, #ARGV - 1, 3 do revisions[#revisions + 1] = 0 end
  return revisions
end
local passing = redis.call('PTTL', KEYS[1])
for index = 2, #ARGV - 1, 3 do
  local name = ARGV[index]
  local before = tonumber(redis.call('HGET', KEYS[1], name .. '#') or 0)
  if before == tonumber(ARGV[index + 2]) then
    redis.call('HSET', KEYS[1], name, ARGV[index + 1], name .. '#', before + 1)
    revisions[#revisions + 1] = before + 1
  else
    revisions[#revisions + 1] = 0
  end
end
if passing == -2 then redis.call('SADD', KEYS[3], ARGV[#ARGV]) end
if lasting > 0 and passing ~= -1 then redis.call('PEXPIRE', KEYS[1], lasting) end
return revisions
"""
"""Compare and set some records of a group: 0 where somebody was faster. The last argument is its name. A
group that is not to last keeps its time to live, renewed by each change."""

POSTPONE = """
if redis.call('EXISTS', KEYS[2]) == 0 then return 0 end
for index = 2, #ARGV do redis.call('ZADD', KEYS[1], ARGV[1], ARGV[index]) end
return 1
"""

DUE = """
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
return {first[2] or '', found}
"""

BRING_IN = (
    RENUMBERING
    + """
for index, key in ipairs(KEYS) do
  if index > 1 and redis.call('EXISTS', key) == 0 then return -1 end
end
local at, moved = 1, 0
while at <= #ARGV do
  local count = tonumber(ARGV[at + 2])
  if redis.call('ZREM', KEYS[1], ARGV[at]) == 1 then
    add(KEYS[1 + tonumber(ARGV[at + 1])], unpack(ARGV, at + 3, at + 2 + count))
    moved = moved + 1
  end
  at = at + 3 + count
end
return moved
"""
)
"""Each due message goes from the sorted set to its stream, once, whoever else tries the same."""

TRIM = """
local keep = tonumber(ARGV[1])
for _, group in ipairs(redis.call('SMEMBERS', KEYS[2])) do
  local key = ARGV[3] .. group
  local record = redis.call('HGET', key, ARGV[2])
  if record then
    local found = cjson.decode(record)
    keep = math.min(keep, found.position)
    for _, each in ipairs(found.aside or {}) do keep = math.min(keep, each[1]) end
    for _, each in ipairs(found.returned or {}) do keep = math.min(keep, each[1]) end
  elseif redis.call('EXISTS', key) == 0 then
    redis.call('SREM', KEYS[2], group)
  else
    keep = 0
  end
end
return redis.call('XTRIM', KEYS[1], 'MINID', string.format('0-%.0f', keep + 1))
"""
"""Remove what is older than retention wants, and done with in all groups. Groups that are gone are
forgotten."""


class Script:
    """Sent by its digest; the text follows if the server does not know it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    def call(self, keys: list[str], arguments: list[Any]) -> tuple[Any, ...]:
        return ("EVALSHA", self.digest, len(keys), *keys, *arguments)

    def full(self, keys: list[str], arguments: list[Any]) -> tuple[Any, ...]:
        return ("EVAL", self.text, len(keys), *keys, *arguments)
