// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.util.concurrent.ConcurrentLinkedQueue

import org.apache.logging.log4j.{Level, LogManager}
import org.apache.logging.log4j.core.{LogEvent, Logger}
import org.apache.logging.log4j.core.appender.AbstractAppender
import org.apache.logging.log4j.core.config.{Configurator, Property}

/** Captures lines of the log. */
private[lodestone] object LogCapture {

  /** Returns the warnings of all classes of Lodestone while `body` runs. */
  def warnings(body: => Unit): Seq[String] = lines(Level.WARN, "lodestone")(body)

  /** Returns the lines of this class at this level, also if the log does not show them. */
  def linesOf(speaker: Class[_], level: Level)(body: => Unit): Seq[String] = {
    Configurator.setLevel(speaker.getName, level)
    try lines(level, speaker.getName)(body)
    finally Configurator.setLevel(speaker.getName, null: Level)
  }

  /** Returns the lines of loggers with such a name at this level. */
  def lines(level: Level, name: String)(body: => Unit): Seq[String] = {
    val said = new ConcurrentLinkedQueue[String]()
    val appender = new AbstractAppender("capture", null, null, false, Property.EMPTY_ARRAY) {
      override def append(event: LogEvent): Unit =
        if (event.getLevel == level && event.getLoggerName.contains(name)) {
          said.add(event.getMessage.getFormattedMessage)
          ()
        }
    }
    val root = LogManager.getRootLogger.asInstanceOf[Logger]
    appender.start()
    root.addAppender(appender)
    val before = root.getLevel
    Configurator.setRootLevel(if (before.isMoreSpecificThan(level)) level else before)
    try body
    finally {
      Configurator.setRootLevel(before)
      root.removeAppender(appender)
    }
    said.toArray(Array.empty[String]).toSeq
  }
}
