// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.engine;

/** The announcement of a frame: {@link FramePush#reserve}. */
public interface FrameReservation extends AutoCloseable {

  /** Lets others begin. Any thread may call it, and repeatedly. */
  @Override
  void close();
}
