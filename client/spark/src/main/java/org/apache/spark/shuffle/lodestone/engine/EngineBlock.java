// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.engine;

import java.io.InputStream;

/** A stream of whole frames. */
public interface EngineBlock {

  /** The name in logs. It names one partition, and the stream may have frames of several. */
  String name();

  /**
   * True if a service had the frames, false if they come from a local output of an executor. A
   * stream of a service was compared with its checksum before its first byte is read.
   */
  boolean isPushed();

  /**
   * The frames of one or more map tasks, one after another. The same stream at each call. It has
   * exactly the bytes that were pushed. Closing it before its end leaves the rest unread.
   */
  InputStream frames();

  /**
   * Called when the engine cannot decode the frames. It always throws, and ends the task as if the
   * block was damaged: Spark runs its maps again.
   *
   * @param why for logs
   */
  void broken(String why);
}
