// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.writer;

import java.io.IOException;

/**
 * The class of which Gluten's native code looks up a method by name. What it calls has to be of
 * this class, or of one that extends it. Gluten's own jar has a class of this name if it was built
 * with Uniffle. {@code FramePusher} extends whichever is loaded: so the constructor is that of
 * Gluten's. Its argument is null, and the class of the argument need not be there.
 */
public class PartitionPusher {

  public PartitionPusher(VeloxUniffleColumnarShuffleWriter<?, ?> uniffleWriter) {
    if (uniffleWriter != null) {
      throw new IllegalArgumentException(
          "This class is Lodestone's. For shuffles of Uniffle take Lodestone's jar off the class"
              + " path");
    }
  }

  /** Takes the first bytes of an array. Returns how many, which native code adds up. */
  public int pushPartitionData(int partitionId, byte[] buffer, int length) throws IOException {
    throw new UnsupportedOperationException("partition " + partitionId);
  }
}
