// SPDX-License-Identifier: Apache-2.0
package org.apache.gluten.vectorized;

import java.io.IOException;
import org.apache.gluten.libvelox.NativeCode;
import org.apache.gluten.runtime.Runtime;
import org.apache.gluten.runtime.RuntimeAware;

/**
 * Stands for gluten-arrow/src/main/java/org/apache/gluten/vectorized/ShuffleWriterJniWrapper.java
 * of apache/incubator-gluten, v1.6.0 (89718982). There the methods are native.
 */
public class ShuffleWriterJniWrapper implements RuntimeAware {
  private final Runtime runtime;

  private ShuffleWriterJniWrapper(Runtime runtime) {
    this.runtime = runtime;
  }

  public static ShuffleWriterJniWrapper create(Runtime runtime) {
    return new ShuffleWriterJniWrapper(runtime);
  }

  @Override
  public long rtHandle() {
    return runtime.getHandle();
  }

  public long createHashShuffleWriter(
      int numPartitions,
      String partitioningName,
      int startPartitionId,
      int splitBufferSize,
      double splitBufferReallocThreshold,
      long partitionWriterHandle) {
    return code().createShuffleWriter(rtHandle(), false, numPartitions, partitionWriterHandle);
  }

  public long createSortShuffleWriter(
      int numPartitions,
      String partitioningName,
      int startPartitionId,
      int diskWriteBufferSize,
      int initialSortBufferSize,
      boolean useRadixSort,
      long partitionWriterHandle) {
    return code().createShuffleWriter(rtHandle(), true, numPartitions, partitionWriterHandle);
  }

  public long reclaim(long shuffleWriterHandle, long size) {
    return code().reclaim(shuffleWriterHandle, size);
  }

  public long write(long shuffleWriterHandle, int numRows, long batchHandle, long memLimit) {
    return code().write(shuffleWriterHandle, numRows, batchHandle);
  }

  public GlutenSplitResult stop(long shuffleWriterHandle) throws IOException {
    return code().stop(shuffleWriterHandle);
  }

  public void close(long shuffleWriterHandle) {
    code().close(shuffleWriterHandle);
  }

  private static NativeCode code() {
    return NativeCode.LOADED.get();
  }
}
