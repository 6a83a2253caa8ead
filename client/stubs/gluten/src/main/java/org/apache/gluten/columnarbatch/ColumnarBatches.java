// SPDX-License-Identifier: Apache-2.0
package org.apache.gluten.columnarbatch;

import org.apache.gluten.libvelox.NativeCode;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Stands for gluten-arrow/src/main/java/org/apache/gluten/columnarbatch/ColumnarBatches.java of
 * apache/incubator-gluten, v1.6.0 (89718982). There a batch knows its handle.
 */
public final class ColumnarBatches {
  private ColumnarBatches() {}

  public static long getNativeHandle(String backendName, ColumnarBatch batch) {
    return NativeCode.LOADED.get().handleOf(batch);
  }
}
