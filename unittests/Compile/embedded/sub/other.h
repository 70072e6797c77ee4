#pragma once
#include "plain.cuh"
