/* What a usual call passes through, in C: the public function's wrapper (patches/scoping.py), and
   Recorder.issue with Recorder._number. Others go to the code in Python. The kernel between them is
   in tap/_tap.cpp.

   The code in Python (recorder.py, sites.py, tap/arguments.py) is the reference: this makes the
   same keys, lines and assignments in the same order. It hands over to the Python code whenever
   something is new or unusual: an unknown group, stack or template, a lock that another thread
   holds, a line that the file did not take. So no rule is written twice that is not needed for
   each call.

   The lock of the record is taken as in Python. From the number to the last assignment nothing is
   called that could run code of the program, so that a signal handler's own collective comes either
   before or after. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef Py_GIL_DISABLED
#error "the record in C relies on the GIL"
#endif

/* -- what is known of the classes in Python ------------------------------------------------- */

typedef struct {
    const char *owner, *name;
    Py_ssize_t offset;
} Slot;

/* Offsets of attributes of classes with __slots__: reading one is a load. */
enum {
    STATE_SCOPE, STATE_ISSUED, STATE_CALLER, STATE_REDUCE_OP, STATE_LABEL, STATE_CALL, STATE_GIVEN, STATE_CALL_T,
    SCOPE_API, SCOPE_CHILDREN, GROUP_TEMPLATES, GROUP_OWNERS,
    TEMPLATE_COUNTER, TEMPLATE_STREAM, TEMPLATE_BODY, TEMPLATE_WIRE, TEMPLATE_PROGRAM,
    TEMPLATE_PAIR, TEMPLATE_ASYNC, TEMPLATE_DEVICE, TEMPLATE_BUCKET,
    COUNTER_SEQ, COUNTER_DONE, COUNTER_OPEN, STREAM_DIGEST, STREAM_PROGRAM, STREAM_PAIRS,
    NODE_ABOVE, NODE_CODE, NODE_LASTI, NODE_OTHERS, NODE_PLACE, PLACE_IS_OPEN,
    SESSION_RECORDER, RECORD_ACTIVE, RECORD_CALLS, RECORD_NS, RECORD_ITERATION, RECORD_LAST_T, RECORD_BUCKETS,
    WRITER_FD, WRITER_TOTAL, WRITER_SIZE, WRITER_FULL, WRITER_CHECKPOINT,
    OWNERS_SEVERAL, READER_GROUP, READER_UNBOX, READER_IS_ALL_REDUCE, READER_REDUCE_OP, READER_FIRST, READER_TAIL,
    SLOTS
};

static Slot slots[SLOTS] = {
    {"ThreadState", "scope", 0}, {"ThreadState", "issued", 0}, {"ThreadState", "caller", 0}, {"ThreadState", "reduce_op", 0},
    {"ThreadState", "label", 0}, {"ThreadState", "call", 0}, {"ThreadState", "given", 0}, {"ThreadState", "call_t", 0},
    {"Scope", "api", 0}, {"Scope", "children", 0}, {"GroupState", "templates", 0}, {"GroupState", "owners", 0},
    {"Template", "counter", 0}, {"Template", "stream", 0}, {"Template", "body", 0},
    {"Template", "wire_step", 0}, {"Template", "program_step", 0},
    {"Template", "pair_step", 0}, {"Template", "is_async", 0}, {"Template", "on_device", 0},
    {"Template", "is_bucket", 0}, {"CallCounter", "seq", 0}, {"CallCounter", "done", 0}, {"CallCounter", "open", 0},
    {"Stream", "digest", 0}, {"Stream", "program", 0},
    {"Stream", "pairs", 0},
    {"Node", "above", 0}, {"Node", "code", 0}, {"Node", "lasti", 0}, {"Node", "others", 0},
    {"Node", "place", 0}, {"Place", "is_open", 0},
    {"HasRecorder", "recorder", 0}, 
    {"Recorder", "active", 0}, {"Recorder", "calls", 0}, {"Recorder", "ns", 0},
    {"Recorder", "iteration", 0}, {"Recorder", "last_t", 0}, {"Recorder", "buckets", 0},
    {"Writer", "fd", 0}, {"Writer", "total", 0}, {"Writer", "_size", 0},
    {"Writer", "_full", 0}, {"Writer", "next_checkpoint", 0},
    {"Ordinals", "several", 0}, {"ArgumentReader", "group_index", 0}, {"ArgumentReader", "unbox", 0},
    {"ArgumentReader", "is_all_reduce", 0}, {"ArgumentReader", "_reduce_op_index", 0},
    {"ArgumentReader", "_project_first", 0}, {"ArgumentReader", "_tail", 0},
};

/* Borrowed; NULL: never assigned. */
#define GET(object, slot) (*(PyObject **)((char *)(object) + slots[slot].offset))

/* Steals `value`. */
static inline void
set(PyObject *object, int slot, PyObject *value)
{
    PyObject *old = GET(object, slot);
    GET(object, slot) = value;
    Py_XDECREF(old);
}

/* Other objects of the Python code, by the names under which `bind` is given them. */
enum {
    INNERMOST, TORCH_CODES, ENGINE, IGNORED, FIND, LOCAL, PROJECT_LIST, READER, TENSOR, PARAMETER, DTYPE, SHAPE,
    DEVICE, NOBODY, ITSELF, THINGS
};
static const char *const thing_names[THINGS] = {
    "innermost", "torch_codes", "engine", "ignored", "find", "local", "project_list", "ArgumentReader",
    "Tensor", "Parameter", "dtype", "shape", "device", "nobody", "itself",
};
static PyObject *things[THINGS];
static PyTypeObject *state_type, *template_type;

#define PRIME ((UINT64_C(1) << 61) - 1)
static uint64_t base;

#define NAMES(X) \
    X(state) X(key) X(dtype) X(shape) X(device) X(in_backward) X(inside_backward) X(models) \
    X(checkpoint) \
    X(at_end) \
    X(op) X(raised) X(left_by)
#define DECLARE(name) static PyObject *s_##name;
NAMES(DECLARE)
#undef DECLARE
static PyObject *is_whole_name; /* ("is_whole",) */
static PyObject *state_name;    /* of a ThreadState in the dictionary of its thread */

/* What each type begins with; all that follows are objects, in the order of its arguments. */
#define HEAD PyObject_HEAD vectorcallfunc vectorcall; Py_ssize_t position;

typedef struct {
    HEAD
    PyObject *recorder, *in_python, *followed_in_python, *groups, *writer, *acquire, *release;
} Issuer;

#if PY_VERSION_HEX < 0x030C0000
static PyObject *
PyErr_GetRaisedException(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

static void
PyErr_SetRaisedException(PyObject *problem)
{
    PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(problem)), problem, PyException_GetTraceback(problem));
}
#endif

/* -- numbers -------------------------------------------------------------------------------- */

static int64_t
now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);  /* as time.monotonic_ns */
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* signature.extend. */
static uint64_t
extend(uint64_t digest, uint64_t step)
{
    unsigned __int128 sum = (unsigned __int128)digest * base + step;
    sum = (sum & PRIME) + (sum >> 61);
    sum = (sum & PRIME) + (sum >> 61);
    return sum == PRIME ? 0 : (uint64_t)sum;
}

static inline int64_t
get_number(PyObject *object, int slot)
{
    return PyLong_AsLongLong(GET(object, slot));
}

/* A residue modulo PRIME: of these no other number is ever made. */
static inline uint64_t
residue(PyObject *value)
{
    return value == Py_None ? 0 : PyLong_AsUnsignedLongLongMask(value);
}

static inline int
set_number(PyObject *object, int slot, int64_t number)
{
    PyObject *value = PyLong_FromLongLong(number);
    if (value == NULL)
        return -1;
    set(object, slot, value);
    return 0;
}

static char *
put_text(char *at, const char *text, Py_ssize_t length)
{
    memcpy(at, text, length);
    return at + length;
}

#define PUT(at, literal) put_text(at, literal, sizeof(literal) - 1)

static char pairs_of_digits[200]; /* "00" to "99" */

static char *
put_number(char *at, uint64_t number)
{
    char digits[20], *first = digits + sizeof digits;
    for (; number >= 100; number /= 100) {
        first -= 2;
        memcpy(first, pairs_of_digits + 2 * (number % 100), 2);
    }
    if (number >= 10) {
        first -= 2;
        memcpy(first, pairs_of_digits + 2 * number, 2);
    }
    else
        *--first = '0' + (char)number;
    return put_text(at, first, digits + sizeof digits - first);
}

/* -- the thread ----------------------------------------------------------------------------- */

/* scopes.local.state. The dictionary of a thread, which `local` uses too, has it under a name of
   ours: that takes a fifth of the time. */
static PyObject *
state_of_thread(void)
{
    PyObject *known = PyThreadState_GetDict();
    PyObject *state = known == NULL ? NULL : PyDict_GetItemWithError(known, state_name);
    if (state != NULL || PyErr_Occurred())
        return Py_XNewRef(state);
    state = PyObject_GetAttr(things[LOCAL], s_state);
    if (state != NULL && Py_TYPE(state) != state_type) {
        PyErr_SetString(PyExc_TypeError, "no ThreadState");
        Py_CLEAR(state);
    }
    if (state != NULL && known != NULL && PyDict_SetItem(known, state_name, state) < 0)
        Py_CLEAR(state);
    return state;
}

/* -- the stack ------------------------------------------------------------------------------ */

/* The code of a frame, which is alive: the frame keeps it. */
static PyCodeObject *
code_of(PyFrameObject *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    Py_DECREF(code);
    return code;
}

/* NULL: not there, or an exception. */
static PyObject *
node_at(PyObject *nodes, PyFrameObject *frame)
{
    PyObject *address = PyLong_FromVoidPtr((char *)code_of(frame) + PyFrame_GetLasti(frame));
    if (address == NULL)
        return NULL;
    PyObject *node = Py_XNewRef(PyDict_GetItemWithError(nodes, address));
    Py_DECREF(address);
    return node;
}

/* Known as torch's, see owners.torch_codes; -1: an exception. */
static int
is_torchs(PyFrameObject *frame)
{
    PyObject *id = PyLong_FromVoidPtr(code_of(frame));
    int found = id == NULL ? -1 : PySet_Contains(things[TORCH_CODES], id);
    Py_XDECREF(id);
    return found;
}

/* The node at which the walk begins, and its frame in place of `frame`. */
static PyObject *
first_node(PyFrameObject **frame)
{
    PyObject *node = node_at(things[INNERMOST], *frame);
    if (node != NULL || PyErr_Occurred())
        return node;
    while (*frame != NULL && is_torchs(*frame) > 0) {
        PyFrameObject *outer = PyFrame_GetBack(*frame);
        Py_SETREF(*frame, outer);
    }
    return *frame == NULL || PyErr_Occurred() ? NULL : node_at(things[INNERMOST], *frame);
}

/* sites.find. */
static PyObject *
find(PyFrameObject *innermost, PyObject *state)
{
    PyObject *place = NULL;
    if (innermost != NULL) {
        PyFrameObject *frame = (PyFrameObject *)Py_NewRef(innermost);
        PyObject *node = first_node(&frame);
        while (node != NULL) {
            PyObject *above = GET(node, NODE_ABOVE);
            /* A new frame object may let the collector run, and that forget all nodes. */
            PyFrameObject *outer = above == Py_None ? NULL : PyFrame_GetBack(frame);
            if (outer == NULL) {
                place = Py_NewRef(GET(node, NODE_PLACE));
                Py_CLEAR(node);
                break;
            }
            Py_SETREF(frame, outer);
            if ((PyObject *)code_of(frame) == GET(above, NODE_CODE)
                && PyFrame_GetLasti(frame) == PyLong_AsLong(GET(above, NODE_LASTI)))
                above = Py_NewRef(above);
            else
                above = node_at(GET(node, NODE_OTHERS), frame);
            Py_SETREF(node, above);
        }
        Py_XDECREF(frame);
        if (PyErr_Occurred())
            return NULL;
    }
    /* What a thread was given to do lies elsewhere. */
    if (place != NULL && place != Py_None && GET(place, PLACE_IS_OPEN) == Py_False)
        return place;
    Py_XDECREF(place);
    PyObject *given[] = {innermost ? (PyObject *)innermost : Py_None, state};
    return PyObject_Vectorcall(things[FIND], given, 2, NULL);
}

/* The innermost frame that is not the tracer's; NULL: there is none. `above` as for issue, which
   would have a frame of its own in Python. */
static PyFrameObject *
caller_of(long above)
{
    PyFrameObject *frame = (PyFrameObject *)Py_XNewRef((PyObject *)PyEval_GetFrame());
    for (; above > 0 && frame != NULL; above--) {
        PyFrameObject *outer = PyFrame_GetBack(frame);
        Py_SETREF(frame, outer);
    }
    return frame;
}

/* -- the key -------------------------------------------------------------------------------- */

/* An attribute of a tensor, by its descriptor if the type is torch's own. */
static PyObject *
field(PyObject *tensor, int descriptor, PyObject *name)
{
    PyObject *type = (PyObject *)Py_TYPE(tensor);
    if (type != things[TENSOR] && type != things[PARAMETER])
        return PyObject_GetAttr(tensor, name);
    return Py_TYPE(things[descriptor])->tp_descr_get(things[descriptor], tensor, type);
}

/* ArgumentReader.key; `reduce_op` may be None. */
static PyObject *
arguments_key(PyObject *reader, PyObject *args, PyObject *reduce_op)
{
    PyObject *tensors = PyTuple_GET_ITEM(args, 0);
    if (GET(reader, READER_FIRST) != things[PROJECT_LIST] || !PyList_CheckExact(tensors)
        || PyList_GET_SIZE(tensors) != 1
        || (reduce_op == Py_None && get_number(reader, READER_REDUCE_OP) >= 0)) {
        PyObject *given[] = {reader, args, reduce_op};
        return PyObject_VectorcallMethod(s_key, given, 3, NULL);
    }
    Py_ssize_t tail = get_number(reader, READER_TAIL);
    PyObject *t = Py_NewRef(PyList_GET_ITEM(tensors, 0));
    PyObject *dtype = NULL, *shape = NULL, *device = NULL, *rest = NULL, *reduced = NULL;
    PyObject *kind = PyLong_FromVoidPtr(Py_TYPE(t)), *key = NULL;
    if (kind != NULL && (dtype = field(t, DTYPE, s_dtype)) != NULL
        && (shape = field(t, SHAPE, s_shape)) != NULL
        && (device = field(t, DEVICE, s_device)) != NULL
        && (rest = PyTuple_GetSlice(args, tail, PyTuple_GET_SIZE(args))) != NULL
        && (reduced = PyLong_FromVoidPtr(reduce_op)) != NULL)
        key = PyTuple_Pack(6, kind, dtype, shape, device, rest, reduced);
    Py_XDECREF(kind);
    Py_XDECREF(dtype);
    Py_XDECREF(shape);
    Py_XDECREF(device);
    Py_XDECREF(rest);
    Py_XDECREF(reduced);
    Py_DECREF(t);
    return key;
}

/* -- the number and the line ---------------------------------------------------------------- */

/* What is read first, then taken over. */
typedef struct {
    uint64_t seq, digest, program, pairs;
    int has_pairs;
} Standing;

/* Put the line's bytes into `line`, which has room; its length. */
static Py_ssize_t
format(char *line, int64_t t, uint64_t iteration, PyObject *body, const Standing *is, int is_stream)
{
    char *at = PUT(line, "{\"kind\":\"call\",\"t\":");
    at = put_number(at, t);
    at = PUT(at, ",\"seq\":");
    at = put_number(at, is->seq);
    at = put_text(at, PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body));
    if (iteration) {
        at = PUT(at, ",\"iteration\":");
        at = put_number(at, iteration);
    }
    if (is_stream) {
        at = PUT(at, ",\"digest\":");
        at = put_number(at, is->digest);
        at = PUT(at, ",\"program\":");
        at = put_number(at, is->program);
        if (is->has_pairs) {
            at = PUT(at, ",\"pairs\":");
            at = put_number(at, is->pairs);
        }
    }
    return PUT(at, "}\n") - line;
}

#define ROOM 300 /* of a line besides its body: 113 characters, and 7 numbers of at most 20 */

/* Write a line as Writer.write does. */
static int
write_line(PyObject *writer, int fd, char *line, Py_ssize_t length)
{
    ssize_t written;
    Py_BEGIN_ALLOW_THREADS
    written = write(fd, line, length);
    Py_END_ALLOW_THREADS
    if (written < 0) { /* interrupted, too: there the handlers run, and it is tried again */
        PyObject *done = PyObject_CallMethod(writer, "write", "y#", line, length);
        Py_XDECREF(done);
        return done == NULL ? -1 : 0;
    }
    int64_t size = get_number(writer, WRITER_SIZE) + written;
    if (set_number(writer, WRITER_SIZE, size)
        || set_number(writer, WRITER_TOTAL, get_number(writer, WRITER_TOTAL) + written))
        return -1;
    if (written == length && size < get_number(writer, WRITER_FULL))
        return 0;
    PyObject *is_whole[] = {writer, written == length ? Py_True : Py_False};
    PyObject *done = PyObject_VectorcallMethod(s_at_end, is_whole, 1, is_whole_name);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Recorder._number with the lock held. The call; NULL without an exception: it is one for Python,
   and nothing has changed. */
static PyObject *
number_locked(Issuer *self, PyObject *template, int64_t t, PyObject *state, PyObject *args)
{
    /* First: it may let the collector run, and finalizers issue calls of their own. */
    PyObject *call = PyTuple_New(2);
    if (call == NULL)
        return NULL;
    char buffer[1024], *line = buffer;
    PyObject *counter = GET(template, TEMPLATE_COUNTER), *stream = GET(template, TEMPLATE_STREAM);
    PyObject *body = GET(template, TEMPLATE_BODY);
    int64_t fd = get_number(self->writer, WRITER_FD);
    int64_t iteration = get_number(self->recorder, RECORD_ITERATION);
    int is_stream = stream != Py_None;
    if (GET(state, STATE_CALL) != Py_None || fd < 0 || iteration < 0 || !PyBytes_CheckExact(body)) {
        Py_DECREF(call);
        return NULL;
    }
    Standing is = {.seq = get_number(counter, COUNTER_SEQ) + 1};
    PyObject *new[4] = {NULL, NULL, NULL, NULL};
    if (is_stream) {
        PyObject *pairs = GET(stream, STREAM_PAIRS), *step = GET(template, TEMPLATE_PAIR);
        is.digest = extend(residue(GET(stream, STREAM_DIGEST)), residue(GET(template, TEMPLATE_WIRE)));
        is.program = extend(residue(GET(stream, STREAM_PROGRAM)),
                            residue(GET(template, TEMPLATE_PROGRAM)));
        is.has_pairs = pairs != Py_None || step != Py_None;
        is.pairs = is.has_pairs ? extend(residue(pairs), residue(step)) : 0;
        new[1] = PyLong_FromUnsignedLongLong(is.digest);
        new[2] = PyLong_FromUnsignedLongLong(is.program);
        new[3] = is.has_pairs ? PyLong_FromUnsignedLongLong(is.pairs) : Py_NewRef(Py_None);
    }
    new[0] = PyLong_FromUnsignedLongLong(is.seq);
    PyObject *when = PyLong_FromLongLong(t);
    Py_ssize_t room = PyBytes_GET_SIZE(body) + ROOM;
    if (room > (Py_ssize_t)sizeof buffer)
        line = PyMem_Malloc(room);
    if (when == NULL || line == NULL || PyErr_Occurred()) {
        for (int i = 0; i < 4; i++)
            Py_XDECREF(new[i]);
        Py_CLEAR(call);
        Py_XDECREF(when);
        goto done;
    }
    Py_ssize_t length = format(line, t, iteration, body, &is, is_stream);
    PyTuple_SET_ITEM(call, 0, Py_NewRef(template));
    PyTuple_SET_ITEM(call, 1, Py_NewRef(new[0]));
    set(counter, COUNTER_SEQ, new[0]);
    if (is_stream) {
        set(stream, STREAM_DIGEST, new[1]);
        set(stream, STREAM_PROGRAM, new[2]);
        set(stream, STREAM_PAIRS, new[3]);
    }

    if (write_line(self->writer, (int)fd, line, length))
        goto failed;
    if (get_number(self->writer, WRITER_TOTAL) >= get_number(self->writer, WRITER_CHECKPOINT)) {
        PyObject *made = PyObject_CallMethodNoArgs(self->recorder, s_checkpoint);
        if (made == NULL)
            goto failed;
        Py_DECREF(made);
    }
    set(state, STATE_GIVEN, Py_NewRef(args));
    set(state, STATE_CALL, Py_NewRef(call));
    set(state, STATE_CALL_T, Py_NewRef(when));
    set(self->recorder, RECORD_LAST_T, Py_NewRef(when));
    if (set_number(self->recorder, RECORD_CALLS, get_number(self->recorder, RECORD_CALLS) + 1)
        || set_number(self->recorder, RECORD_NS, get_number(self->recorder, RECORD_NS) + now() - t))
        goto failed;
    goto done_with_when;
failed:
    Py_CLEAR(call);
done_with_when:
    Py_DECREF(when);
done:
    if (line != buffer)
        PyMem_Free(line);
    return call;
}

/* Recorder._number. */
static PyObject *
number(Issuer *self, PyObject *template, int64_t t, PyObject *state, PyObject *args)
{
    PyObject *held = PyObject_CallNoArgs(self->acquire);
    if (held == NULL)
        return NULL;
    Py_DECREF(held);
    PyObject *call = number_locked(self, template, t, state, args);
    if (call == NULL && !PyErr_Occurred())
        call = PyObject_CallMethod(self->recorder, "_number", "OLOO", template, (long long)t, state,
                                   args);
    PyObject *problem = call == NULL ? PyErr_GetRaisedException() : NULL;
    PyObject *released = PyObject_CallNoArgs(self->release);
    if (released == NULL)
        Py_CLEAR(call);
    Py_XDECREF(released);
    if (problem != NULL)
        PyErr_SetRaisedException(problem);
    return call;
}

/* -- issue ---------------------------------------------------------------------------------- */

/* Call the recorder's _void with the exception in flight, or let that go on. */
static PyObject *
void_call(Issuer *self, PyObject *reader, PyObject *args, int64_t t)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return NULL;
    PyObject *problem = PyErr_GetRaisedException();
    PyObject *call = PyObject_CallMethod(self->recorder, "_void", "OOLO", reader, args,
                                         (long long)t, problem);
    Py_DECREF(problem);
    return call;
}

/* What the template of a call is found by: five objects, and the key of its arguments. */
static PyObject *
look_up(PyObject *templates, PyObject *reader, PyObject *scope, PyObject *place, int from_autograd,
        PyObject *state, PyObject *arguments)
{
    PyObject *key = PyTuple_Pack(6, reader, scope, place, from_autograd ? Py_True : Py_False,
                                 GET(state, STATE_LABEL), arguments);
    if (key == NULL)
        return NULL;
    PyObject *template = Py_XNewRef(PyDict_GetItemWithError(templates, key));
    Py_DECREF(key);
    return template;
}

/* Owners of a call's scope where several models share a group, as in Recorder.issue. */
static PyObject *
inside_backward(Issuer *self, PyObject *scope)
{
    PyObject *models = PyObject_GetAttr(self->recorder, s_models), *found = NULL;
    if (models == NULL)
        return NULL;
    PyObject *module = PyObject_CallMethodNoArgs(models, s_in_backward);
    if (module != NULL)
        found = PyObject_CallMethodOneArg(scope, s_inside_backward, module);
    Py_XDECREF(module);
    Py_DECREF(models);
    return found;
}

/* Recorder.issue but for its last line: the template and the number; NULL without an exception: it
   is a call for Python. */
static PyObject *
issue_usual(Issuer *self, PyObject *reader, PyObject *args, long above, int64_t t, int *is_told)
{
    PyObject *state = NULL, *pg = NULL, *scope = NULL, *place = NULL, *arguments = NULL;
    PyObject *reduce_op = NULL, *template = NULL, *call = NULL;
    PyFrameObject *frame = NULL;

    int64_t at = get_number(reader, READER_GROUP);
    if (at < 0 || at >= PyTuple_GET_SIZE(args))
        return NULL;
    PyObject *unbox = GET(reader, READER_UNBOX);
    pg = unbox == things[ITSELF] ? Py_NewRef(PyTuple_GET_ITEM(args, at))
                                 : PyObject_CallOneArg(unbox, PyTuple_GET_ITEM(args, at));
    if (pg == NULL || (state = state_of_thread()) == NULL)
        goto done;
    PyObject *group = PyDict_GetItemWithError(self->groups, pg);
    if (group == NULL)
        goto done;
    Py_SETREF(pg, Py_NewRef(group));

    scope = Py_NewRef(GET(state, STATE_SCOPE));
    int is_bare = GET(scope, SCOPE_API) == Py_None;
    PyObject *caller = is_bare ? Py_None : GET(state, STATE_CALLER);
    frame = caller == Py_None ? caller_of(above) : (PyFrameObject *)Py_NewRef(caller);
    if ((place = find(frame, state)) == NULL)
        goto done;
    int from_autograd = is_bare && (frame == NULL || (PyObject *)code_of(frame) == things[ENGINE]);
    reduce_op = Py_NewRef(GET(state, STATE_REDUCE_OP));
    set(state, STATE_REDUCE_OP, Py_NewRef(Py_None));
    PyObject *stands_for = reduce_op;
    if (from_autograd && GET(reader, READER_IS_ALL_REDUCE) == Py_True) {
        stands_for = reader;
        if (GET(GET(group, GROUP_OWNERS), OWNERS_SEVERAL) == Py_True) {
            PyObject *inside = inside_backward(self, scope);
            if (inside == NULL)
                goto done;
            Py_SETREF(scope, inside);
        }
    }
    if ((arguments = arguments_key(reader, args, stands_for)) == NULL)
        goto done;
    template = look_up(GET(group, GROUP_TEMPLATES), reader, scope, place, from_autograd, state,
                       arguments);
    if (template == NULL || Py_TYPE(template) != template_type) {
        if (!PyErr_Occurred())  /* Python takes it once more */
            set(state, STATE_REDUCE_OP, Py_NewRef(reduce_op));
        goto done;
    }
    if (template == things[IGNORED]) {
        call = Py_NewRef(Py_None);
        goto done;
    }
    PyObject *handled = PyErr_GetHandledException();
    if (handled != NULL) {
        PyObject *noted = PyObject_CallMethod(self->recorder, "_handles", "OL", handled,
                                              (long long)t);
        Py_DECREF(handled);
        if (noted == NULL)
            goto done;
        Py_DECREF(noted);
    }
    call = number(self, template, t, state, args);
    *is_told = is_bare || GET(template, TEMPLATE_ASYNC) != Py_False
        || GET(template, TEMPLATE_DEVICE) != Py_False;
done:
    Py_XDECREF(state);
    Py_XDECREF(pg);
    Py_XDECREF(scope);
    Py_XDECREF((PyObject *)frame);
    Py_XDECREF(place);
    Py_XDECREF(reduce_op);
    Py_XDECREF(arguments);
    Py_XDECREF(template);
    return call;
}

/* Recorder.issue; `reader` is exactly an ArgumentReader. */
static PyObject *
issue_call(Issuer *self, PyObject *reader, PyObject *args, long above)
{
    if (GET(self->recorder, RECORD_ACTIVE) != Py_True)
        Py_RETURN_NONE;
    int64_t t = now();
    int is_told = 1;
    PyObject *call = issue_usual(self, reader, args, above, t, &is_told);
    if (call == NULL)
        return PyErr_Occurred() ? void_call(self, reader, args, t)
                                : PyObject_CallFunction(self->in_python, "OOl", reader, args, above);
    if (!is_told)
        Py_SETREF(call, Py_NewRef(Py_None));
    return call;
}

static PyObject *
issue(PyObject *callable, PyObject *const *given, size_t flags, PyObject *names)
{
    Issuer *self = (Issuer *)callable;
    Py_ssize_t n = PyVectorcall_NARGS(flags);
    if (names != NULL || n < 2 || n > 3 || Py_TYPE(given[0]) != (PyTypeObject *)things[READER]
        || !PyTuple_CheckExact(given[1]) || (n == 3 && !PyLong_CheckExact(given[2])))
        return PyObject_Vectorcall(self->in_python, given, n, names);
    return issue_call(self, given[0], given[1], n == 3 ? PyLong_AsLong(given[2]) : 1);
}

/* -- after the call ------------------------------------------------------------------------- */

#define FEW_BUCKETS 1000 /* of one backward; of more, Python decides */

/* Recorder.followed; 0: it is a call for Python. */
static int
follow_bucket(PyObject *recorder, PyObject *call)
{
    PyObject *template = PyTuple_GET_ITEM(call, 0), *buckets = GET(recorder, RECORD_BUCKETS);
    if (GET(template, TEMPLATE_BUCKET) != Py_True || GET(template, TEMPLATE_DEVICE) != Py_False
        || !PyList_CheckExact(buckets) || PyList_GET_SIZE(buckets) >= FEW_BUCKETS)
        return 0;
    PyObject *state = state_of_thread();
    PyObject *open = GET(GET(template, TEMPLATE_COUNTER), COUNTER_OPEN);
    if (state == NULL || PyDict_SetItem(open, PyTuple_GET_ITEM(call, 1), GET(state, STATE_CALL_T))
        || PyList_Append(buckets, call)) {
        Py_XDECREF(state);
        PyErr_Clear();
        return 0;
    }
    set(state, STATE_CALL, Py_NewRef(Py_None));
    set(state, STATE_GIVEN, Py_NewRef(Py_None));
    set(state, STATE_ISSUED, Py_NewRef(call));
    Py_DECREF(state);
    return 1;
}

static PyObject *
followed(PyObject *self, PyObject *call)
{
    PyObject *recorder = ((Issuer *)self)->recorder;
    if (PyTuple_CheckExact(call) && follow_bucket(recorder, call))
        Py_RETURN_TRUE;
    return PyObject_CallOneArg(((Issuer *)self)->followed_in_python, call);
}

/* -- public functions ----------------------------------------------------------------------- */

typedef struct {
    HEAD
    PyObject *session, *wrapped, *name, *sum, *member, *inside, *track, *outside, *code;
} Public;

/* The scope of this function inside another. */
static PyObject *
inside_api(Public *self, PyObject *recorder, PyObject *scope)
{
    PyObject *found = PyDict_GetItemWithError(GET(scope, SCOPE_CHILDREN), self->name);
    if (found != NULL || PyErr_Occurred())
        return Py_XNewRef(found);
    PyObject *given[] = {recorder, scope, self->name};
    return PyObject_Vectorcall(self->inside, given, 3, NULL);
}

/* The member of the ReduceOp enum among the arguments; None: there is none. */
static PyObject *
reduce_op_of(Public *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyObject *op = self->sum;
    if (n > self->position)
        op = args[self->position];
    else if (names != NULL)
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++)
            if (PyUnicode_Compare(PyTuple_GET_ITEM(names, i), s_op) == 0)
                op = args[n + i];
    return (PyObject *)Py_TYPE(op) == self->member ? op : Py_None;
}

/* The function has raised, which is in flight and stays so. */
static void
public_raised(Public *self, PyObject *recorder, PyObject *state)
{
    PyObject *problem = PyErr_GetRaisedException(), *call = Py_NewRef(GET(state, STATE_CALL));
    PyObject *known[] = {recorder, call, problem}, *unknown[] = {recorder, problem, self->name};
    PyObject *noted = call != Py_None ? PyObject_VectorcallMethod(s_raised, known, 3, NULL)
                                      : PyObject_VectorcallMethod(s_left_by, unknown, 3, NULL);
    Py_DECREF(call);
    if (noted == NULL) {
        Py_DECREF(problem);
        return;
    }
    Py_DECREF(noted);
    PyErr_SetRaisedException(problem);
}

/* The function has returned `result`, and its call is an asynchronous one. */
static int
track(Public *self, PyObject *recorder, PyObject *state, PyObject *result, PyObject *const *args,
      Py_ssize_t n)
{
    PyObject *first = PyTuple_New(n > 0), *tracked = NULL;
    if (first != NULL) {
        if (n > 0)
            PyTuple_SET_ITEM(first, 0, Py_NewRef(args[0]));
        PyObject *told[] = {recorder, result, GET(state, STATE_ISSUED), first};
        tracked = PyObject_Vectorcall(self->track, told, 4, NULL);
        Py_DECREF(first);
    }
    Py_XDECREF(tracked);
    return tracked == NULL ? -1 : 0;
}

/* The function has issued nothing: note that if a group was passed that the rank is not in. */
static int
outside(Public *self, PyObject *recorder, PyObject *frame, PyObject *const *args, Py_ssize_t n,
        PyObject *names)
{
    Py_ssize_t all = n + (names == NULL ? 0 : PyTuple_GET_SIZE(names));
    for (Py_ssize_t i = 0; i < all; i++) {
        if (args[i] != things[NOBODY])
            continue;
        PyObject *told[] = {recorder, self->name, frame == NULL ? Py_None : frame};
        PyObject *noted = PyObject_Vectorcall(self->outside, told, 3, NULL);
        Py_XDECREF(noted);
        return noted == NULL ? -1 : 0;
    }
    return 0;
}

/* What is made in patches/scoping.api. */
static PyObject *
public(PyObject *callable, PyObject *const *args, size_t flags, PyObject *names)
{
    Public *self = (Public *)callable;
    Py_ssize_t n = PyVectorcall_NARGS(flags);
    PyObject *state = NULL, *scope = NULL, *inside = NULL, *caller = NULL, *result = NULL;
    PyObject *frame = NULL; /* held as in Python: value_records counts who holds it */
    PyObject *recorder = Py_NewRef(GET(self->session, SESSION_RECORDER));
    if (recorder == Py_None) {
        result = PyObject_Vectorcall(self->wrapped, args, flags, names);
        goto done;
    }
    if ((state = state_of_thread()) == NULL)
        goto done;
    scope = Py_NewRef(GET(state, STATE_SCOPE));
    if (self->position >= 0)
        set(state, STATE_REDUCE_OP, Py_NewRef(reduce_op_of(self, args, n, names)));
    if (GET(scope, SCOPE_API) != Py_None) {
        result = PyObject_Vectorcall(self->wrapped, args, flags, names);
        goto done;
    }
    if ((inside = inside_api(self, recorder, scope)) == NULL)
        goto done;
    frame = Py_XNewRef((PyObject *)PyEval_GetFrame());
    caller = Py_NewRef(GET(state, STATE_CALLER));
    set(state, STATE_SCOPE, Py_NewRef(inside));
    set(state, STATE_CALLER, Py_NewRef(frame == NULL ? Py_None : frame));
    set(state, STATE_ISSUED, Py_NewRef(Py_None));
    result = PyObject_Vectorcall(self->wrapped, args, flags, names);
    if (result == NULL)
        public_raised(self, recorder, state);
    set(state, STATE_SCOPE, Py_NewRef(scope));
    set(state, STATE_CALLER, Py_NewRef(caller));
    set(state, STATE_REDUCE_OP, Py_NewRef(Py_None));
    PyObject *call = GET(state, STATE_CALL);
    if (result != NULL && call != Py_None) {
        PyObject *counter = GET(PyTuple_GET_ITEM(call, 0), TEMPLATE_COUNTER);
        PyObject *seq = PyTuple_GET_ITEM(call, 1);
        if (PyLong_AsLongLong(seq) > get_number(counter, COUNTER_DONE))
            set(counter, COUNTER_DONE, Py_NewRef(seq));
        set(state, STATE_CALL, Py_NewRef(Py_None));
        set(state, STATE_GIVEN, Py_NewRef(Py_None));
    }
    else if (result != NULL && result != Py_None && GET(state, STATE_ISSUED) != Py_None
             && track(self, recorder, state, result, args, n) < 0)
        Py_CLEAR(result);
    else if (result != NULL && GET(state, STATE_ISSUED) == Py_None
             && outside(self, recorder, frame, args, n, names) < 0)
        Py_CLEAR(result);
done:
    Py_XDECREF(recorder);
    Py_XDECREF(state);
    Py_XDECREF(scope);
    Py_XDECREF(inside);
    Py_XDECREF(caller);
    Py_XDECREF(frame);
    return result;
}

/* -- the types ------------------------------------------------------------------------------ */

typedef struct {
    HEAD
    PyObject *parts[];
} Any;

static Py_ssize_t
count(PyTypeObject *type)
{
    return (type->tp_basicsize - sizeof(Any)) / sizeof(PyObject *);
}

static PyTypeObject public_type;

/* Arguments: the position (of the ReduceOp, for Public), and each of the parts. */
static PyObject *
any_new(PyTypeObject *type, PyObject *args, PyObject *names)
{
    Py_ssize_t n = count(type);
    if (PyTuple_GET_SIZE(args) != n + 1)
        return PyErr_Format(PyExc_TypeError, "%s needs %zd arguments", type->tp_name, n + 1);
    Py_ssize_t position = PyLong_AsSsize_t(PyTuple_GET_ITEM(args, 0));
    if (position == -1 && PyErr_Occurred())
        return NULL;
    Any *self = (Any *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = type == &public_type ? public : issue;
    self->position = position;
    for (Py_ssize_t i = 0; i < n; i++)
        self->parts[i] = Py_NewRef(PyTuple_GET_ITEM(args, i + 1));
    return (PyObject *)self;
}

static int
any_traverse(PyObject *object, visitproc visit, void *arg)
{
    for (Py_ssize_t i = 0; i < count(Py_TYPE(object)); i++)
        Py_VISIT(((Any *)object)->parts[i]);
    return 0;
}

static int
any_clear(PyObject *object)
{
    for (Py_ssize_t i = 0; i < count(Py_TYPE(object)); i++)
        Py_CLEAR(((Any *)object)->parts[i]);
    return 0;
}

static void
any_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    any_clear(object);
    Py_TYPE(object)->tp_free(object);
}

static PyMethodDef issuer_methods[] = {
    {"followed", followed, METH_O, "As Recorder.followed."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef public_members[] = {
    {"__code__", T_OBJECT_EX, offsetof(Public, code), READONLY, "of the function in Python"},
    {NULL, 0, 0, 0, NULL},
};

#define TYPE(name, struct, flags, ...) \
    static PyTypeObject name = { \
        PyVarObject_HEAD_INIT(NULL, 0) \
        .tp_name = "collectrace.tracer.record._native." #struct, \
        .tp_basicsize = sizeof(struct), \
        .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | flags, \
        .tp_new = any_new, \
        .tp_traverse = any_traverse, \
        .tp_clear = any_clear, \
        .tp_dealloc = any_dealloc, \
        __VA_ARGS__ \
    };

TYPE(issuer_type, Issuer, Py_TPFLAGS_HAVE_VECTORCALL, .tp_call = PyVectorcall_Call,
     .tp_vectorcall_offset = offsetof(Issuer, vectorcall), .tp_methods = issuer_methods)
TYPE(public_type, Public, Py_TPFLAGS_HAVE_VECTORCALL, .tp_call = PyVectorcall_Call,
     .tp_vectorcall_offset = offsetof(Public, vectorcall), .tp_members = public_members)

/* Know the classes and objects of the Python code, by their names. */
static PyObject *
bind(PyObject *module, PyObject *args, PyObject *names)
{
    unsigned long long theirs, prime;
    if (!PyArg_ParseTuple(args, "KK", &theirs, &prime))
        return NULL;
    if (prime != PRIME || names == NULL)
        return PyErr_Format(PyExc_ValueError, "digests modulo another prime");
    base = theirs;
    for (int i = 0; i < SLOTS; i++) {
        PyObject *owner = PyDict_GetItemString(names, slots[i].owner);
        PyObject *found = owner ? PyObject_GetAttrString(owner, slots[i].name) : NULL;
        int is_slot = found != NULL && Py_TYPE(found) == &PyMemberDescr_Type
            && ((PyMemberDescrObject *)found)->d_member->type == T_OBJECT_EX;
        if (is_slot)
            slots[i].offset = ((PyMemberDescrObject *)found)->d_member->offset;
        Py_XDECREF(found);
        if (!is_slot)
            return PyErr_Format(PyExc_TypeError, "no slot %s.%s", slots[i].owner, slots[i].name);
    }
    state_type = (PyTypeObject *)PyDict_GetItemString(names, "ThreadState");
    template_type = (PyTypeObject *)PyDict_GetItemString(names, "Template");
    Py_INCREF(state_type);
    Py_INCREF(template_type);
    for (int i = 0; i < THINGS; i++) {
        PyObject *thing = PyDict_GetItemString(names, thing_names[i]);
        if (thing == NULL)
            return PyErr_Format(PyExc_TypeError, "%s is missing", thing_names[i]);
        Py_XSETREF(things[i], Py_NewRef(thing));
    }
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"bind", (PyCFunction)(void (*)(void))bind, METH_VARARGS | METH_KEYWORDS,
     "Know the classes and objects of the Python code."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_native",
    .m_doc = "What Recorder.issue does for the usual call, in C.",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC
PyInit__native(void)
{
    for (int i = 0; i < 100; i++) {
        pairs_of_digits[2 * i] = '0' + i / 10;
        pairs_of_digits[2 * i + 1] = '0' + i % 10;
    }
#define INTERN(name) \
    if ((s_##name = PyUnicode_InternFromString(#name)) == NULL) \
        return NULL;
    NAMES(INTERN)
#undef INTERN
    if ((is_whole_name = Py_BuildValue("(s)", "is_whole")) == NULL
        || (state_name = PyUnicode_InternFromString("collectrace.state")) == NULL)
        return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL
        && (PyModule_AddType(module, &issuer_type) < 0
            || PyModule_AddType(module, &public_type) < 0))
        Py_CLEAR(module);
    return module;
}
