// Boost.JSON, compiled here so that it is built with the same sanitizers.
#include <boost/json/src.hpp>
