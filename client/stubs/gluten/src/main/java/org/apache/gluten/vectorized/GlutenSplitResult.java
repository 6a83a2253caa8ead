// SPDX-License-Identifier: Apache-2.0
package org.apache.gluten.vectorized;

/**
 * Stands for gluten-arrow/src/main/java/org/apache/gluten/vectorized/GlutenSplitResult.java of
 * apache/incubator-gluten, v1.6.0 (89718982). Native code makes it, with more than these numbers.
 */
public class GlutenSplitResult {
  private final long[] partitionLengths;
  private final long[] rawPartitionLengths;

  public GlutenSplitResult(long[] partitionLengths, long[] rawPartitionLengths) {
    this.partitionLengths = partitionLengths;
    this.rawPartitionLengths = rawPartitionLengths;
  }

  public long[] getPartitionLengths() {
    return partitionLengths;
  }

  public long[] getRawPartitionLengths() {
    return rawPartitionLengths;
  }

  public long getTotalWriteTime() {
    return 0;
  }

  public long getTotalPushTime() {
    return 0;
  }

  public long getTotalCompressTime() {
    return 0;
  }

  public long getSortTime() {
    return 0;
  }

  public long getC2RTime() {
    return 0;
  }

  public long getPeakBytes() {
    return 0;
  }
}
