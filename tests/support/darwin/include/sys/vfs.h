/* statfs() has another header on macOS. */
#pragma once

#include <sys/mount.h>
