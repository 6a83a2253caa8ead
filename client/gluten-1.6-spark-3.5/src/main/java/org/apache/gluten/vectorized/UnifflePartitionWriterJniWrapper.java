// SPDX-License-Identifier: Apache-2.0
package org.apache.gluten.vectorized;

import org.apache.gluten.runtime.Runtime;
import org.apache.gluten.runtime.RuntimeAware;

/**
 * The class that Gluten's native library implements a method of, to make what pushes partitions.
 * The library has this method in all builds for Velox, and finds it by the names of class and
 * method. Gluten's own jar has the same class only if it was built with Uniffle, and it does not
 * matter which of the two is loaded: {@code GlutenLinkage} looks at the one that is.
 */
public class UnifflePartitionWriterJniWrapper implements RuntimeAware {
  private final Runtime runtime;

  private UnifflePartitionWriterJniWrapper(Runtime runtime) {
    this.runtime = runtime;
  }

  public static UnifflePartitionWriterJniWrapper create(Runtime runtime) {
    return new UnifflePartitionWriterJniWrapper(runtime);
  }

  @Override
  public long rtHandle() {
    return runtime.getHandle();
  }

  /**
   * Returns the handle of what pushes partitions. It calls {@code PartitionPusher} on the thread
   * that writes, with one array for all of its calls.
   */
  public native long createPartitionWriter(
      int numPartitions,
      String codec,
      String codecBackend,
      int compressionLevel,
      int compressionBufferSize,
      int pushBufferMaxSize,
      long sortBufferMaxSize,
      Object pusher);
}
