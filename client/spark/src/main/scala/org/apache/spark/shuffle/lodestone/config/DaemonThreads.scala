// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.config

import java.util.concurrent.ThreadFactory

/** Creates daemon threads, which do not keep the JVM alive. Their names begin with `lodestone`. */
private[lodestone] object DaemonThreads {

  def named(name: String): ThreadFactory = task => {
    val thread = new Thread(task, s"lodestone-$name")
    thread.setDaemon(true)
    thread
  }

  /** An exception of `work` ends the JVM of an executor (SparkUncaughtExceptionHandler). */
  def start(name: String)(work: => Unit): Unit = named(name).newThread(() => work).start()
}
