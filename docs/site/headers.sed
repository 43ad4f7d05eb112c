s/^inline namespace v0 {$//
s/^}  \/\/ namespace v0$//
/^ *template <class T>$/{
N
s/^.*\n.*= delete;.*$/\n/
}
s/^.*= delete;.*$//
