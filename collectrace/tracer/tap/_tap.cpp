// The kernels of tap/wire.py in C++: they are called without turning all arguments into objects of
// Python and back, which takes longer than to record a call.
//
// It is built against one torch, and loaded only with that one (tap/compiled.py). Without it, the
// kernels in Python do the same. They are the reference.
//
// Arguments are as there but for three things. A group is the ProcessGroup itself, not a box. A
// ReduceOp is an object of Python that answers op(). Trailing arguments with defaults are not left
// out.

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <map>

namespace {

namespace py = pybind11;

// A method by its name, without a new string for each call.
class Name {
 public:
  explicit Name(const char* text) : text_(PyUnicode_InternFromString(text)) {}

  template <typename... Given>
  py::object call(const py::object& owner, const Given&... given) const {
    PyObject* all[] = {owner.ptr(), given.ptr()...};
    return checked(PyObject_VectorcallMethod(text_, all, sizeof...(given) + 1, nullptr));
  }

  py::object of(const py::object& owner) const {
    return checked(PyObject_GetAttr(owner.ptr(), text_));
  }

 private:
  static py::object checked(PyObject* result) {
    if (result == nullptr) {
      throw py::error_already_set();
    }
    return py::reinterpret_steal<py::object>(result);
  }

  PyObject* text_;  // immortal
};

enum class Kind { plain, group, reduce_op };

Kind kind_of(const c10::Argument& argument) {
  const auto type = argument.type()->cast<c10::ClassType>();
  if (type == nullptr) {
    return Kind::plain;
  }
  const std::string name = type->name()->qualifiedName();
  if (name == "__torch__.torch.classes.c10d.ProcessGroup") {
    return Kind::group;
  }
  return name == "__torch__.torch.classes.c10d.ReduceOp" ? Kind::reduce_op : Kind::plain;
}

// What the kernel of an operator needs. It is never freed: a thread may be about to enter a kernel
// while another one removes it, and the interpreter ends before the dispatcher.
struct Known {
  std::vector<Kind> kinds;  // of the arguments
  // As in tap/wire.py, with their methods; null: tracing has ended.
  py::object session, reader;
  py::tuple reduce_ops;

  py::tuple arguments(const torch::jit::Stack& stack) const {
    const size_t n = kinds.size();
    py::tuple found(n);
    for (size_t i = 0; i < n; ++i) {
      found[i] = as_object(kinds[i], torch::jit::peek(stack, i, n));
    }
    return found;
  }

  py::object group(const py::tuple& args) const {
    for (size_t i = 0; i < kinds.size(); ++i) {
      if (kinds[i] == Kind::group) {
        return args[i];
      }
    }
    return py::none();
  }

 private:
  py::object as_object(Kind kind, const c10::IValue& value) const {
    if (kind == Kind::group) {
      return py::cast(value.toCustomClass<c10d::ProcessGroup>());
    }
    if (kind == Kind::reduce_op) {
      const auto number = static_cast<size_t>(value.toCustomClass<c10d::ReduceOp>()->op_);
      if (number < reduce_ops.size()) {
        return reduce_ops[number];
      }
    }
    return torch::jit::toPyObject(value);
  }
};

class Kernel final : public c10::OperatorKernel {
 public:
  explicit Kernel(const Known* known) : known_(known) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
    // Whatever waits for the GIL, or runs code of Python, may destroy this.
    const Known* known = known_;
    const auto rest = keys.remove(c10::DispatchKey::BackendSelect);
    // Held throughout, as by a kernel in Python: a thread of C++ keeps its state meanwhile.
    const py::gil_scoped_acquire gil;
    const py::object session = known->session, reader = known->reader;
    if (!session) {
      const py::gil_scoped_release no_gil;
      op.redispatchBoxed(rest, stack);
      return;
    }
    static const Name recorder_name("recorder"), begin("begin_by_call"), issue("issue"),
        followed("followed"), follow_up("follow_up"), not_taken("not_taken");
    const py::tuple args = known->arguments(*stack);
    py::object recorder = recorder_name.of(session), call = py::none();
    if (recorder.is_none()) {
      recorder = begin.call(session, known->group(args));
    }
    if (!recorder.is_none()) {
      // 0: there is no frame of the kernel.
      call = issue.call(recorder, reader, args, py::int_(0));
    }
    try {
      const py::gil_scoped_release no_gil;
      op.redispatchBoxed(rest, stack);
    } catch (const std::exception&) {
      torch::translate_exception_to_python(std::current_exception());
      const py::error_already_set problem;
      if (!recorder.is_none()) {
        not_taken.call(recorder, reader, args, call, problem.value());
      }
      throw problem;
    }
    if (!call.is_none() && followed.call(recorder, call).ptr() != Py_True) {
      follow_up.call(recorder, call, result(op.schema(), *stack), args);
    }
  }

 private:
  // As a kernel in Python gets it.
  static py::object result(const c10::FunctionSchema& schema, const torch::jit::Stack& stack) {
    return torch::jit::createPyObjectForStack(
        torch::jit::last(stack, schema.returns().size()).vec());
  }

  const Known* known_;
};

// The kernels of a session, until it is closed. There is one session at a time.
class Tap {
 public:
  Tap(py::object session, py::tuple reduce_ops)
      : session_(std::move(session)), reduce_ops_(std::move(reduce_ops)),
        library_(std::make_unique<torch::Library>(torch::Library::IMPL, "c10d",
                                                  c10::DispatchKey::BackendSelect, __FILE__,
                                                  __LINE__)) {}

  void put(const std::string& name, const py::object& reader) {
    const auto handle =
        c10::Dispatcher::singleton().findSchemaOrThrow(("c10d::" + name).c_str(), "");
    Known& known = all()[name];
    if (known.kinds.empty()) {  // the first time: others may be reading it later
      for (const auto& argument : handle.schema().arguments()) {
        known.kinds.push_back(kind_of(argument));
      }
    }
    known.session = session_;
    known.reader = reader;
    known.reduce_ops = reduce_ops_;
    library_->impl(name.c_str(),
                   torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(&known)));
  }

  void close() {
    library_.reset();
    for (auto& [name, known] : all()) {
      known.session = known.reader = py::object();
    }
  }

 private:
  // By the name of the operator.
  static std::map<std::string, Known>& all() {
    static auto* known = new std::map<std::string, Known>();
    return *known;
  }

  py::object session_;
  py::tuple reduce_ops_;
  std::unique_ptr<torch::Library> library_;
};

}  // namespace

PYBIND11_MODULE(_tap, module) {
  if (py::detail::get_type_info(typeid(c10d::ProcessGroup)) == nullptr) {
    throw py::import_error("torch was built with another pybind11");
  }
  py::class_<Tap>(module, "Tap")
      .def(py::init<py::object, py::tuple>())
      .def("put", &Tap::put)
      .def("close", &Tap::close);
}
