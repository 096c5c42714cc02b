/* Stored messages, as the answers to pulls carry them, into the buffers of Arrow columns.
 *
 * The same columns as rocketmq_py.spark.decode makes with NumPy, in one pass over the records and one over the columns.
 * Knows the layout of a record (MessageExtEncoder and MessageDecoder of Apache RocketMQ: V1 and V2, IPv4 and IPv6
 * hosts) and of properties. Whatever needs more than that (compressed bodies, inner batches, lengths that disagree,
 * text that is not UTF-8) is refused with None, and the caller takes the way that explains it.
 *
 * Only the stable ABI of CPython 3.11 is used. No byte is read before its place was held against the end of its input.
 */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT 1 /* what the caller and this module agree on; see __init__.py */

#define MAGIC_V1 0xDAA320A7u
#define MAGIC_V2 0xDAA320ABu
#define COMPRESSED 0x01
#define BORN_HOST_V6 0x10
#define STORE_HOST_V6 0x20
#define NEED_UNWRAP 0x40
#define INNER_BATCH 0x80

/* Places in a record; those behind the first host move with it. */
#define QUEUE_ID_AT 12
#define QUEUE_OFFSET_AT 20
#define PHYSICAL_OFFSET_AT 28
#define SYS_FLAG_AT 36
#define BORN_TIME_AT 40
#define BORN_HOST_AT 48
#define FIXED_SIZE 88
#define MIN_SIZE (FIXED_SIZE + 1 + 2)

#define NAME_END 1
#define ENTRY_END 2
#define MOST_TEXTS 3
#define MOST_PAIRS 64 /* of one record, where all are wanted: each is held against the others */

typedef struct {
    const uint8_t *at;
    const uint8_t *topic;
    const uint8_t *properties;
    int32_t born_host, store_host; /* bytes of each */
    int32_t body_length;
    uint16_t topic_length, properties_length;
} Record;

typedef struct {
    const uint8_t *at;
    uint32_t length;
} Slice;

typedef struct {
    Record *records;
    Py_ssize_t count, room;
} Run;

/* What decode() ends with beside the columns. */
typedef enum { DONE, IRREGULAR, NO_MEMORY, FAILED } Outcome;

static uint16_t u16(const uint8_t *at) { return (uint16_t)(at[0] << 8 | at[1]); }

static uint32_t u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static uint64_t u64(const uint8_t *at) { return (uint64_t)u32(at) << 32 | u32(at + 4); }

static const uint8_t *body_of(const Record *record)
{
    return record->at + FIXED_SIZE - 16 + record->born_host + record->store_host;
}

static const uint8_t *store_time_of(const Record *record) { return record->at + BORN_HOST_AT + record->born_host; }

static const uint8_t *store_host_of(const Record *record) { return store_time_of(record) + 8; }

static const uint8_t *reconsume_times_of(const Record *record) { return store_host_of(record) + record->store_host; }

/* ------------------------------------------------------------------ records */

/* Whether [at, end) begins with a record of the plain kinds; fills it in. Its size is 0 where it does not. */
static uint32_t read_record(const uint8_t *at, const uint8_t *end, Record *record)
{
    uint64_t left = (uint64_t)(end - at);
    if (left < MIN_SIZE)
        return 0;
    uint32_t size = u32(at), magic = u32(at + 4), flags = u32(at + SYS_FLAG_AT);
    if (size < MIN_SIZE || size > left || (magic != MAGIC_V1 && magic != MAGIC_V2))
        return 0;
    if (flags & (COMPRESSED | NEED_UNWRAP | INNER_BATCH))
        return 0;
    record->at = at;
    record->born_host = flags & BORN_HOST_V6 ? 20 : 8;
    record->store_host = flags & STORE_HOST_V6 ? 20 : 8;
    uint64_t fixed = FIXED_SIZE - 16 + (uint64_t)record->born_host + (uint64_t)record->store_host;
    uint64_t prefix = magic == MAGIC_V1 ? 1 : 2;
    if (fixed + prefix + 2 > size)
        return 0;
    uint32_t body = u32(at + fixed - 4);
    uint64_t topic = fixed + body + prefix; /* where its text begins */
    if (body > INT32_MAX || topic + 2 > size)
        return 0;
    record->body_length = (int32_t)body;
    record->topic = at + topic;
    record->topic_length = prefix == 1 ? at[topic - 1] : u16(at + topic - 2);
    uint64_t properties = topic + record->topic_length + 2;
    if (properties > size)
        return 0;
    record->properties = at + properties;
    record->properties_length = u16(at + properties - 2);
    return properties + record->properties_length == size ? size : 0;
}

/* The records of one input whose offsets ascend within [*above + 1, stop), and whose topic is the first one's. */
static Outcome read_run(const uint8_t *at, const uint8_t *end, int64_t *above, int64_t stop, Run *run)
{
    while (at < end) {
        if (run->count == run->room) {
            Py_ssize_t room = run->room ? 2 * run->room : 1024;
            Record *records = realloc(run->records, (size_t)room * sizeof(Record));
            if (!records)
                return NO_MEMORY;
            run->records = records;
            run->room = room;
        }
        Record *record = &run->records[run->count];
        uint32_t size = read_record(at, end, record);
        if (!size)
            return IRREGULAR;
        at += size;
        int64_t offset = (int64_t)u64(record->at + QUEUE_OFFSET_AT);
        if (offset > *above) {
            *above = offset;
            run->count += offset < stop;
        }
    }
    return DONE;
}

static int one_topic(const Run *run)
{
    const Record *first = run->records;
    for (Py_ssize_t i = 1; i < run->count; i++) {
        const Record *record = first + i;
        if (record->topic_length != first->topic_length || memcmp(record->topic, first->topic, first->topic_length))
            return 0;
    }
    return 1;
}

/* --------------------------------------------------------------------- text */

/* Bytes of the UTF-8 character at ``at``, as Unicode's table 3-7 allows them; 0 for none. */
static int utf8_width(const uint8_t *at, const uint8_t *end)
{
    uint8_t first = at[0];
    int width = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
    if (!width || end - at < width)
        return 0;
    for (int i = 1; i < width; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    if ((first == 0xE0 && at[1] < 0xA0) || (first == 0xED && at[1] > 0x9F))
        return 0;
    if ((first == 0xF0 && at[1] < 0x90) || (first == 0xF4 && at[1] > 0x8F))
        return 0;
    return width;
}

static int is_utf8(const uint8_t *at, size_t length)
{
    const uint8_t *end = at + length;
    while (at < end) {
        uint64_t word;
        if (end - at >= 8 && (memcpy(&word, at, 8), !(word & 0x8080808080808080u))) {
            at += 8;
            continue;
        }
        int width = utf8_width(at, end);
        if (!width)
            return 0;
        at += width;
    }
    return 1;
}

/* --------------------------------------------------------------- properties */

/* What is wanted of the properties: some by name, and perhaps all of them. */
typedef struct {
    int count;              /* of the names */
    const char *names[MOST_TEXTS];
    size_t lengths[MOST_TEXTS];
    Slice *values;          /* ``count`` for each record; without text where it has none */
    int all;
    Slice *pairs;           /* name, value, name, value, ... of all records, where all are wanted */
    Py_ssize_t pair_count, pair_room;
    int32_t *firsts;        /* number of pairs before each record, and of all at the end */
} Wanted;

static int is_named(Slice name, const char *other, size_t length)
{
    return name.length == length && !memcmp(name.at, other, length);
}

static Outcome keep_pair(Wanted *wanted, Py_ssize_t first, Slice name, Slice value)
{
    if (wanted->pair_count - first == MOST_PAIRS)
        return IRREGULAR;
    for (Py_ssize_t i = first; i < wanted->pair_count; i++)
        if (is_named(wanted->pairs[2 * i], (const char *)name.at, name.length))
            return IRREGULAR; /* a map must not hold a name twice */
    if (wanted->pair_count == wanted->pair_room) {
        Py_ssize_t room = wanted->pair_room ? 2 * wanted->pair_room : 4096;
        Slice *pairs = realloc(wanted->pairs, 2 * (size_t)room * sizeof(Slice));
        if (!pairs)
            return NO_MEMORY;
        wanted->pairs = pairs;
        wanted->pair_room = room;
    }
    wanted->pairs[2 * wanted->pair_count] = name;
    wanted->pairs[2 * wanted->pair_count + 1] = value;
    wanted->pair_count++;
    return DONE;
}

/* The properties of one record; as Java's parser: what has no name or no value is dropped, the last one of a name stays. */
static Outcome read_properties(const Record *record, Wanted *wanted, Slice *values)
{
    const uint8_t *at = record->properties, *end = at + record->properties_length;
    Py_ssize_t first = wanted->pair_count;
    if (!is_utf8(at, record->properties_length))
        return IRREGULAR;
    while (at < end) {
        const uint8_t *entry_end = memchr(at, ENTRY_END, (size_t)(end - at));
        if (!entry_end)
            entry_end = end;
        const uint8_t *name_end = memchr(at, NAME_END, (size_t)(entry_end - at));
        if (name_end && name_end > at && entry_end - name_end > 1) {
            Slice name = {at, (uint32_t)(name_end - at)};
            Slice value = {name_end + 1, (uint32_t)(entry_end - name_end - 1)};
            for (int i = 0; i < wanted->count; i++)
                if (is_named(name, wanted->names[i], wanted->lengths[i]))
                    values[i] = value;
            Outcome outcome = wanted->all ? keep_pair(wanted, first, name, value) : DONE;
            if (outcome != DONE)
                return outcome;
        }
        at = entry_end + 1;
    }
    return DONE;
}

static Outcome read_all_properties(const Run *run, Wanted *wanted)
{
    if (!wanted->count && !wanted->all)
        return DONE;
    wanted->values = calloc((size_t)run->count * (size_t)(wanted->count ? wanted->count : 1), sizeof(Slice));
    wanted->firsts = wanted->all ? malloc(((size_t)run->count + 1) * sizeof(int32_t)) : NULL;
    if (!wanted->values || (wanted->all && !wanted->firsts))
        return NO_MEMORY;
    for (Py_ssize_t i = 0; i < run->count; i++) {
        if (wanted->all)
            wanted->firsts[i] = (int32_t)wanted->pair_count;
        Outcome outcome = read_properties(&run->records[i], wanted, wanted->values + i * wanted->count);
        if (outcome != DONE)
            return outcome;
        if (wanted->pair_count > INT32_MAX / 2)
            return IRREGULAR;
    }
    if (wanted->all)
        wanted->firsts[run->count] = (int32_t)wanted->pair_count;
    return DONE;
}

/* ------------------------------------------------------------------ columns */

/* Each of these gives a new object, or NULL with an exception set. */

static PyObject *int32_column(const Run *run, const uint8_t *(*place)(const Record *))
{
    PyObject *column = PyBytes_FromStringAndSize(NULL, run->count * 4);
    if (!column)
        return NULL;
    int32_t *to = (int32_t *)PyBytes_AsString(column);
    for (Py_ssize_t i = 0; i < run->count; i++)
        to[i] = (int32_t)u32(place(&run->records[i]));
    return column;
}

static PyObject *int64_column(const Run *run, const uint8_t *(*place)(const Record *), uint64_t factor)
{
    PyObject *column = PyBytes_FromStringAndSize(NULL, run->count * 8);
    if (!column)
        return NULL;
    uint64_t *to = (uint64_t *)PyBytes_AsString(column);
    for (Py_ssize_t i = 0; i < run->count; i++)
        to[i] = u64(place(&run->records[i])) * factor;
    return column;
}

static const uint8_t *queue_id_of(const Record *record) { return record->at + QUEUE_ID_AT; }
static const uint8_t *queue_offset_of(const Record *record) { return record->at + QUEUE_OFFSET_AT; }
static const uint8_t *born_time_of(const Record *record) { return record->at + BORN_TIME_AT; }

/* Offsets and bytes of ``count`` slices, every ``step``-th of ``slices``. */
static PyObject *bytes_column(const Slice *slices, Py_ssize_t count, Py_ssize_t step)
{
    uint64_t total = 0;
    for (Py_ssize_t i = 0; i < count; i++)
        total += slices[i * step].length;
    if (total > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a column of more than 2 GiB");
        return NULL;
    }
    PyObject *offsets = PyBytes_FromStringAndSize(NULL, (count + 1) * 4);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total);
    if (!offsets || !bytes) {
        Py_XDECREF(offsets);
        Py_XDECREF(bytes);
        return NULL;
    }
    int32_t *bounds = (int32_t *)PyBytes_AsString(offsets);
    char *begin = PyBytes_AsString(bytes), *to = begin;
    for (Py_ssize_t i = 0; i < count; i++) {
        const Slice *slice = &slices[i * step];
        bounds[i] = (int32_t)(to - begin);
        if (slice->length)
            memcpy(to, slice->at, slice->length);
        to += slice->length;
    }
    bounds[count] = (int32_t)total;
    return Py_BuildValue("(NN)", offsets, bytes);
}

/* None, offsets and bytes: no row of it is null. */
static PyObject *body_column(const Run *run)
{
    Slice *slices = malloc((size_t)run->count * sizeof(Slice));
    if (!slices)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < run->count; i++) {
        slices[i].at = body_of(&run->records[i]);
        slices[i].length = (uint32_t)run->records[i].body_length;
    }
    PyObject *column = bytes_column(slices, run->count, 1);
    free(slices);
    return column ? Py_BuildValue("(ON)", Py_None, column) : NULL;
}

/* Bits of the rows that are not null, or None if no row is, then offsets and bytes. */
static PyObject *text_column(const Slice *values, Py_ssize_t count, Py_ssize_t step)
{
    Py_ssize_t nulls = 0;
    for (Py_ssize_t i = 0; i < count; i++)
        nulls += !values[i * step].at;
    PyObject *bits = Py_None;
    if (nulls) {
        bits = PyBytes_FromStringAndSize(NULL, (count + 7) / 8);
        if (!bits)
            return NULL;
        uint8_t *to = (uint8_t *)PyBytes_AsString(bits);
        memset(to, 0, (size_t)((count + 7) / 8));
        for (Py_ssize_t i = 0; i < count; i++)
            if (values[i * step].at)
                to[i / 8] |= (uint8_t)(1 << (i % 8));
    } else {
        Py_INCREF(bits);
    }
    PyObject *column = bytes_column(values, count, step);
    if (!column) {
        Py_DECREF(bits);
        return NULL;
    }
    return Py_BuildValue("(NN)", bits, column);
}

/* Numbers of the first pair of each record, then the column of the names and that of the values. */
static PyObject *map_column(const Run *run, const Wanted *wanted)
{
    PyObject *firsts = PyBytes_FromStringAndSize((const char *)wanted->firsts, (run->count + 1) * 4);
    PyObject *names = firsts ? bytes_column(wanted->pairs, wanted->pair_count, 2) : NULL;
    PyObject *values = names ? bytes_column(wanted->pairs + 1, wanted->pair_count, 2) : NULL;
    if (!values) {
        Py_XDECREF(firsts);
        Py_XDECREF(names);
        return NULL;
    }
    return Py_BuildValue("(NNN)", firsts, names, values);
}

static const char DIGITS[] = "0123456789ABCDEF";

/* The ids a broker gives, in ``room``, for the records whose value is missing; see wire.ids.offset_msg_id. */
static void fill_in_ids(const Run *run, Slice *values, Py_ssize_t step, uint8_t *room)
{
    for (Py_ssize_t i = 0; i < run->count; i++) {
        const Record *record = &run->records[i];
        if (values[i * step].at)
            continue;
        uint8_t *to = room;
        const uint8_t *host = store_host_of(record), *physical = record->at + PHYSICAL_OFFSET_AT;
        for (int j = 0; j < record->store_host + 8; j++) {
            uint8_t byte = j < record->store_host ? host[j] : physical[j - record->store_host];
            *to++ = (uint8_t)DIGITS[byte >> 4];
            *to++ = (uint8_t)DIGITS[byte & 15];
        }
        values[i * step] = (Slice){room, (uint32_t)(to - room)};
        room = to;
    }
}

static PyObject *id_column(const Run *run, Slice *values, Py_ssize_t step)
{
    uint8_t *room = malloc((size_t)run->count * 2 * (20 + 8));
    if (!room)
        return PyErr_NoMemory();
    fill_in_ids(run, values, step, room);
    PyObject *column = text_column(values, run->count, step);
    free(room);
    return column;
}

/* ------------------------------------------------------------------- module */

typedef enum { TOPIC, QUEUE_ID, QUEUE_OFFSET, BODY, BORN, STORED, RECONSUMED, PROPERTIES, TAGS, KEYS, MSG_ID } Kind;

static const struct {
    const char *name;
    Kind kind;
    const char *property; /* it comes from */
} COLUMNS[] = {
    {"topic", TOPIC, NULL},
    {"queueId", QUEUE_ID, NULL},
    {"queueOffset", QUEUE_OFFSET, NULL},
    {"body", BODY, NULL},
    {"bornTimestamp", BORN, NULL},
    {"storeTimestamp", STORED, NULL},
    {"reconsumeTimes", RECONSUMED, NULL},
    {"properties", PROPERTIES, NULL},
    {"tags", TAGS, "TAGS"},
    {"keys", KEYS, "KEYS"},
    {"msgId", MSG_ID, "UNIQ_KEY"},
};
#define COLUMN_COUNT ((int)(sizeof(COLUMNS) / sizeof(COLUMNS[0])))

static PyObject *column_of(Kind kind, const Run *run, Wanted *wanted, int text)
{
    Slice *values = wanted->values + text;
    switch (kind) {
    case TOPIC:
        return PyBytes_FromStringAndSize((const char *)run->records->topic, run->records->topic_length);
    case QUEUE_ID:
        return int32_column(run, queue_id_of);
    case QUEUE_OFFSET:
        return int64_column(run, queue_offset_of, 1);
    case BODY:
        return body_column(run);
    case BORN:
        return int64_column(run, born_time_of, 1000);
    case STORED:
        return int64_column(run, store_time_of, 1000);
    case RECONSUMED:
        return int32_column(run, reconsume_times_of);
    case PROPERTIES:
        return map_column(run, wanted);
    case MSG_ID:
        return id_column(run, values, wanted->count);
    default:
        return text_column(values, run->count, wanted->count);
    }
}

/* The columns named by a tuple, as kinds and as what they need of the properties; -1 with an exception set. */
static int read_names(PyObject *names, Kind *kinds, int *texts, Wanted *wanted)
{
    Py_ssize_t count = PyTuple_Size(names);
    if (count > COLUMN_COUNT) {
        PyErr_SetString(PyExc_ValueError, "a column is named twice");
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        const char *name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, i), NULL);
        int at = 0;
        while (name && at < COLUMN_COUNT && strcmp(name, COLUMNS[at].name))
            at++;
        if (!name || at == COLUMN_COUNT) {
            if (name)
                PyErr_Format(PyExc_ValueError, "there is no column %s", name);
            return -1;
        }
        for (Py_ssize_t before = 0; before < i; before++)
            if (kinds[before] == COLUMNS[at].kind) {
                PyErr_Format(PyExc_ValueError, "column %s is named twice", name);
                return -1;
            }
        kinds[i] = COLUMNS[at].kind;
        texts[i] = wanted->count;
        wanted->all |= COLUMNS[at].kind == PROPERTIES;
        if (COLUMNS[at].property) {
            wanted->names[wanted->count] = COLUMNS[at].property;
            wanted->lengths[wanted->count++] = strlen(COLUMNS[at].property);
        }
    }
    return 0;
}

/* The columns of a run as a tuple, its number of rows before them; NULL with an exception set. */
static PyObject *columns_of(const Run *run, Py_ssize_t count, const Kind *kinds, const int *texts, Wanted *wanted)
{
    PyObject *found = PyTuple_New(count);
    for (Py_ssize_t i = 0; found && i < count; i++) {
        PyObject *column = column_of(kinds[i], run, wanted, texts[i]);
        if (!column || PyTuple_SetItem(found, i, column)) {
            Py_DECREF(found);
            return NULL;
        }
    }
    return found ? Py_BuildValue("(nN)", run->count, found) : NULL;
}

/* All records of the bodies; the buffers are released by the caller. */
static Outcome read_bodies(const Py_buffer *bodies, Py_ssize_t count, int64_t start, int64_t stop, Run *run)
{
    int64_t above = start - 1;
    Outcome outcome = DONE;
    for (Py_ssize_t i = 0; i < count && outcome == DONE; i++) {
        const uint8_t *at = bodies[i].buf;
        outcome = read_run(at, at + bodies[i].len, &above, stop, run);
    }
    return outcome == DONE && run->count && !one_topic(run) ? IRREGULAR : outcome;
}

PyDoc_STRVAR(decode_doc,
"decode(bodies, start, stop, columns, /)\n--\n\n"
"The records of ``bodies`` whose queue offsets ascend within ``start`` to ``stop``, as buffers of Arrow columns.\n"
"\n"
":param bodies: a list of the bodies of answers to pulls, whole records each; those of one queue, in order.\n"
":param columns: a tuple of the names of columns, as rocketmq_py.spark.decode.COLUMNS has them.\n"
":returns: the number of rows and a tuple of the columns. Numbers come as the bytes of their values in the machine's\n"
"    order, times in microseconds; ``body``, ``tags``, ``keys`` and ``msgId`` as the bits of the rows that are not\n"
"    null (None: all are not) and a pair of offsets and bytes; ``properties`` as the number of the first pair of each\n"
"    row, then such a pair for the names and one for the values; ``topic`` as the bytes of the only one there is.\n"
"    None for records that need more than their layout: compressed bodies, inner batches, several topics, a property\n"
"    name twice where all are asked for, text that is not UTF-8, lengths that disagree.\n"
":raises ValueError: a column does not exist, or is named twice.\n"
":raises OverflowError: a column would be larger than 2 GiB.");

static PyObject *decode(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *bodies, *names;
    long long start, stop;
    if (!PyArg_ParseTuple(args, "O!LLO!:decode", &PyList_Type, &bodies, &start, &stop, &PyTuple_Type, &names))
        return NULL;
    Kind kinds[COLUMN_COUNT];
    int texts[COLUMN_COUNT];
    Wanted wanted = {0};
    if (read_names(names, kinds, texts, &wanted))
        return NULL;

    Py_ssize_t count = PyList_Size(bodies), held = 0;
    Run run = {0};
    PyObject *found = NULL;
    Outcome outcome = DONE;
    Py_buffer *views = calloc((size_t)(count ? count : 1), sizeof(Py_buffer));
    if (!views)
        return PyErr_NoMemory();
    while (held < count && !PyObject_GetBuffer(PyList_GetItem(bodies, held), &views[held], PyBUF_SIMPLE))
        held++;
    if (held < count) {
        outcome = FAILED;
    } else {
        Py_BEGIN_ALLOW_THREADS
        outcome = read_bodies(views, count, start, stop, &run);
        if (outcome == DONE)
            outcome = read_all_properties(&run, &wanted);
        Py_END_ALLOW_THREADS
    }
    if (outcome == DONE && run.count)
        found = columns_of(&run, PyTuple_Size(names), kinds, texts, &wanted);
    else if (outcome == DONE)
        found = Py_BuildValue("(i())", 0);
    else if (outcome == NO_MEMORY)
        PyErr_NoMemory();
    else if (outcome == IRREGULAR)
        found = Py_NewRef(Py_None);

    while (held)
        PyBuffer_Release(&views[--held]);
    free(views);
    free(run.records);
    free(wanted.values);
    free(wanted.pairs);
    free(wanted.firsts);
    return found;
}

static PyMethodDef METHODS[] = {
    {"decode", decode, METH_VARARGS, decode_doc},
    {NULL, NULL, 0, NULL},
};

static int fill(PyObject *module) { return PyModule_AddIntConstant(module, "FORMAT", FORMAT); }

static PyModuleDef_Slot SLOTS[] = {
    {Py_mod_exec, fill},
    {0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT,
    .m_name = "rocketmq_py_native._records",
    .m_doc = "Stored messages into the buffers of Arrow columns.",
    .m_methods = METHODS,
    .m_slots = SLOTS,
};

PyMODINIT_FUNC PyInit__records(void) { return PyModuleDef_Init(&MODULE); }
