//===- NoCudnn.cpp - attention in a build without cuDNN's headers ---------===//

#include "Attention/Cudnn.h"

namespace te::rt::cuda {

Status Cudnn::load(const LibraryPaths &, std::unique_ptr<Cudnn> *) {
  return {TE_RT_UNSUPPORTED,
          "this build has no attention on the cuda backend: the headers of "
          "cuDNN and its frontend were not found when it was configured "
          "(scripts/setup.sh fetches them); use the 'reference' backend"};
}

} // namespace te::rt::cuda
