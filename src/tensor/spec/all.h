#pragma once

// The numerics specification in code: docs/formats/numerics.md, rule by rule.
#include "tensor/spec/attention.h"
#include "tensor/spec/convert.h"
#include "tensor/spec/dequantise.h"
#include "tensor/spec/dot.h"
#include "tensor/spec/functions.h"
#include "tensor/spec/functions64.h"
#include "tensor/spec/quantise.h"
#include "tensor/spec/random.h"
#include "tensor/spec/reduce.h"
#include "tensor/spec/rope.h"
#include "tensor/spec/router.h"
#include "tensor/spec/sampling.h"
#include "tensor/spec/scalar.h"
#include "tensor/spec/unpack.h"
#include "tensor/spec/version.h"
