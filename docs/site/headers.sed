s/^inline namespace v0 {$//
s/^}  \/\/ namespace v0$//
/^ *template <class T>$/{
N
s/^.*\n.*= delete;.*$/\n/
}
s/^.*= delete;.*$//
/^namespace detail {  \/\/ its comments/,/^}  \/\/ namespace detail$/s/^namespace .*{.*$\|^}  \/\/ namespace .*$//
s/detail::TensorSet/TensorSet/
