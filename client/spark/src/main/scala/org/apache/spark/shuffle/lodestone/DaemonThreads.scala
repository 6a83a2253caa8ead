// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.util.concurrent.ThreadFactory

/** Threads that are recognised in a thread dump, and that keep no JVM alive. */
private[lodestone] object DaemonThreads {

  def named(name: String): ThreadFactory = task => {
    val thread = new Thread(task, s"lodestone-$name")
    thread.setDaemon(true)
    thread
  }

  /** What `work` throws ends the JVM of an executor (SparkUncaughtExceptionHandler). */
  def start(name: String)(work: => Unit): Unit = named(name).newThread(() => work).start()
}
