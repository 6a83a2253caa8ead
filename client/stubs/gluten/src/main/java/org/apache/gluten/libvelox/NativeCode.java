// SPDX-License-Identifier: Apache-2.0
package org.apache.gluten.libvelox;

import java.util.concurrent.atomic.AtomicReference;
import org.apache.gluten.runtime.Runtime;
import org.apache.gluten.vectorized.GlutenSplitResult;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** No class of Gluten: what the stubs call where Gluten calls libvelox. A test answers. */
public interface NativeCode {
  AtomicReference<NativeCode> LOADED = new AtomicReference<>();

  Runtime runtime();

  long handleOf(ColumnarBatch batch);

  long createLocalPartitionWriter(int numPartitions, String dataFile);

  long createShuffleWriter(long runtime, boolean isSort, int numPartitions, long partitionWriter);

  long write(long shuffleWriter, int numRows, long batch);

  long reclaim(long shuffleWriter, long size);

  GlutenSplitResult stop(long shuffleWriter);

  void close(long shuffleWriter);
}
