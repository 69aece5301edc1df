# Finding what the cuda backend is built from. Nothing of it is linked: the
# driver and cuBLASLt are loaded at run time, only their headers are needed.

# te_find_cuda(): sets, in the caller's scope,
#   TE_CUDA_FOUND           whether the cuda backend is built
#   TE_NVCC                 the compiler of the kernels
#   TE_CUDA_INCLUDE_DIR     where <cuda.h> is
#   TE_CUBLAS_INCLUDE_DIR   where <cublasLt.h> is (a folder `.deps/cublas` below
#                           the source tree goes before the toolkit)
#   TE_CUDNN_INCLUDE_DIR, TE_CUDNN_FRONTEND_INCLUDE_DIR
#                           where <cudnn.h> and <cudnn_frontend.h> are; without
#                           them the backend has no attention
# TE_CUDA=AUTO leaves the backend out when one is missing; ON makes it an error.
function(te_find_cuda)
  set(TE_CUDA_FOUND FALSE PARENT_SCOPE)
  if(TE_CUDA STREQUAL "OFF")
    return()
  endif()
  find_program(TE_NVCC nvcc HINTS ENV CUDA_PATH ENV CUDA_HOME
               PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(TE_NVCC)
    get_filename_component(toolkit ${TE_NVCC} REALPATH)
    get_filename_component(toolkit ${toolkit} DIRECTORY)
    get_filename_component(toolkit ${toolkit} DIRECTORY)
  endif()
  find_path(TE_CUDA_INCLUDE_DIR cuda.h HINTS ${toolkit}/include
            ENV CUDA_PATH ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES include)
  find_path(TE_CUBLAS_INCLUDE_DIR cublasLt.h
            HINTS ${PROJECT_SOURCE_DIR}/.deps/cublas/include ${TE_CUDA_INCLUDE_DIR}
            ENV CUDA_PATH ENV CUDA_HOME PATH_SUFFIXES include)
  find_path(TE_CUDNN_INCLUDE_DIR cudnn.h
            HINTS ${PROJECT_SOURCE_DIR}/.deps/cudnn/include
            ENV CUDNN_PATH PATH_SUFFIXES include)
  find_path(TE_CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h
            HINTS ${PROJECT_SOURCE_DIR}/.deps/cudnn/include
            ENV CUDNN_PATH PATH_SUFFIXES include)

  set(missing "")
  foreach(pair "TE_NVCC=nvcc" "TE_CUDA_INCLUDE_DIR=cuda.h"
               "TE_CUBLAS_INCLUDE_DIR=cublasLt.h")
    string(REPLACE "=" ";" pair ${pair})
    list(GET pair 0 variable)
    list(GET pair 1 thing)
    if(NOT ${variable})
      list(APPEND missing "${thing} (${variable})")
    endif()
  endforeach()
  list(JOIN missing ", " missing)
  if(NOT missing)
    set(TE_CUDA_FOUND TRUE PARENT_SCOPE)
  elseif(TE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TE_CUDA is ON, but these were not found: ${missing}")
  else()
    message(STATUS "building without the cuda backend, not found: ${missing}")
  endif()
endfunction()
