// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.engine;

import java.util.Iterator;

/**
 * The blocks that a reduce task reads: some partitions of some maps. Each frame that Spark's
 * accepted map attempts have pushed is in exactly one of the streams. A block that is missing or
 * damaged is an exception, never an end.
 *
 * <p>What is said of bytes holds for streams of services ({@link EngineBlock#isPushed}). A local
 * output of mode remote has neither checksum nor length: it is read as Spark reads it. A local
 * output of the other modes has a checksum, which is compared as the documentation of engines says.
 *
 * <p><b>Threads.</b> One thread at a time, which need not be the task's. A call throws when the
 * task was killed. The end of the task interrupts a call of another thread, which then throws.
 *
 * <p><b>Failures.</b> What the methods and the streams throw ends the task as Spark expects it,
 * also if the engine wraps it: if map outputs are lost, Spark runs their maps again. The engine
 * ends its work, and reads no further.
 */
public interface EngineReader extends Iterator<EngineBlock> {

  /**
   * Tells whether there is another stream. The last one must have been read to its end, or closed,
   * before this is asked: an engine that has missed its end would lose rows.
   */
  @Override
  boolean hasNext();

  /** Begins the next stream. The last one must be over, as for {@link #hasNext}. */
  @Override
  EngineBlock next();

  /** Adds rows that the engine has decoded to the metrics of the task. */
  void addRows(long rows);
}
