// SPDX-License-Identifier: Apache-2.0
package org.apache.gluten.vectorized;

import java.io.Serializable;

/**
 * Stands for gluten-substrait/src/main/java/org/apache/gluten/vectorized/NativePartitioning.java of
 * apache/incubator-gluten, v1.6.0 (89718982).
 */
public class NativePartitioning implements Serializable {
  private final String shortName;
  private final int numPartitions;

  public NativePartitioning(String shortName, int numPartitions) {
    this.shortName = shortName;
    this.numPartitions = numPartitions;
  }

  public String getShortName() {
    return shortName;
  }

  public int getNumPartitions() {
    return numPartitions;
  }
}
