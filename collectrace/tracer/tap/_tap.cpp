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

// One operator's kernel. `session`, `reader` and their methods are those of tap/wire.py.
class Kernel final : public c10::OperatorKernel {
 public:
  Kernel(const c10::FunctionSchema& schema, py::object session, py::object reader,
         py::tuple reduce_ops)
      : session_(std::move(session)), reader_(std::move(reader)),
        reduce_ops_(std::move(reduce_ops)) {
    for (const auto& argument : schema.arguments()) {
      kinds_.push_back(kind_of(argument));
    }
  }

  // The dispatcher is destroyed after the interpreter, and closed by a thread of Python.
  ~Kernel() override {
    if (!Py_IsInitialized()) {
      session_.release();
      reader_.release();
      reduce_ops_.release();
    }
  }

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
    // Held throughout, as by a kernel in Python: a thread of C++ keeps its state meanwhile.
    py::gil_scoped_acquire gil;
    const py::tuple args = arguments(*stack);
    const py::object reader = reader_;  // the tap may be closed meanwhile, and this destroyed
    static const Name recorder_name("recorder"), begin("begin_by_call"), issue("issue"),
        followed("followed"), issued("issued"), not_taken("not_taken");
    py::object recorder = recorder_name.of(session_);
    if (recorder.is_none()) {
      recorder = begin.call(session_, group(args));
    }
    py::object call = py::none();
    if (!recorder.is_none()) {
      // 0: there is no frame of the kernel.
      call = issue.call(recorder, reader, args, py::int_(0));
    }
    try {
      const py::gil_scoped_release no_gil;
      op.redispatchBoxed(keys.remove(c10::DispatchKey::BackendSelect), stack);
    } catch (const std::exception&) {
      torch::translate_exception_to_python(std::current_exception());
      const py::error_already_set problem;
      if (!recorder.is_none()) {
        not_taken.call(recorder, reader, args, call, problem.value());
      }
      throw problem;
    }
    if (!call.is_none() && followed.call(recorder, call).ptr() != Py_True) {
      issued.call(recorder, call, result(op.schema(), *stack), args);
    }
  }

 private:
  py::tuple arguments(const torch::jit::Stack& stack) const {
    const size_t n = kinds_.size();
    py::tuple found(n);
    for (size_t i = 0; i < n; ++i) {
      found[i] = as_object(kinds_[i], torch::jit::peek(stack, i, n));
    }
    return found;
  }

  py::object as_object(Kind kind, const c10::IValue& value) const {
    if (kind == Kind::group) {
      return py::cast(value.toCustomClass<c10d::ProcessGroup>());
    }
    if (kind == Kind::reduce_op) {
      const auto number = static_cast<size_t>(value.toCustomClass<c10d::ReduceOp>()->op_);
      return number < reduce_ops_.size() ? py::object(reduce_ops_[number])
                                         : torch::jit::toPyObject(value);
    }
    return torch::jit::toPyObject(value);
  }

  py::object group(const py::tuple& args) const {
    for (size_t i = 0; i < kinds_.size(); ++i) {
      if (kinds_[i] == Kind::group) {
        return args[i];
      }
    }
    return py::none();
  }

  // As a kernel in Python gets it.
  static py::object result(const c10::FunctionSchema& schema, const torch::jit::Stack& stack) {
    return torch::jit::createPyObjectForStack(
        torch::jit::last(stack, schema.returns().size()).vec());
  }

  py::object session_, reader_;
  py::tuple reduce_ops_;
  std::vector<Kind> kinds_;
};

// The kernels of a session, until it is closed.
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
    auto kernel = std::make_unique<Kernel>(handle.schema(), session_, reader, reduce_ops_);
    library_->impl(name.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::move(kernel)));
  }

  void close() { library_.reset(); }

 private:
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
