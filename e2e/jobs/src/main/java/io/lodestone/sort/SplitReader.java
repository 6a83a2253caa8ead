// SPDX-License-Identifier: Apache-2.0
package io.lodestone.sort;

import java.io.EOFException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.StandardOpenOption;
import java.util.Iterator;
import java.util.NoSuchElementException;
import scala.Tuple2;

/**
 * The records of a split, each shown by the same two objects: Spark's writers that serialize a
 * record at once do not keep a reference to it.
 */
final class SplitReader implements Iterator<Tuple2<Record, Record>> {
  private static final int BUFFER_BYTES = 10_000 * Record.BYTES;

  private final FileChannel file;
  private final ByteBuffer buffer = ByteBuffer.allocate(BUFFER_BYTES);
  private final Record record = new Record(buffer.array());
  private final Tuple2<Record, Record> shown = new Tuple2<>(record, record);
  private long position;
  private final long end;

  SplitReader(Split split) {
    position = split.offset;
    end = split.offset + split.length;
    buffer.flip();
    try {
      file = FileChannel.open(split.path(), StandardOpenOption.READ);
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
  }

  @Override
  public boolean hasNext() {
    return buffer.hasRemaining() || fill();
  }

  @Override
  public Tuple2<Record, Record> next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    record.offset = buffer.position();
    buffer.position(record.offset + Record.BYTES);
    return shown;
  }

  /** Reads more. Returns false at the end, and closes the file. */
  private boolean fill() {
    try {
      if (position == end) {
        file.close();
        return false;
      }
      buffer.clear().limit((int) Math.min(BUFFER_BYTES, end - position));
      while (buffer.hasRemaining()) {
        int count = file.read(buffer, position);
        if (count < 0) {
          throw new EOFException("the input became shorter while it was read");
        }
        position += count;
      }
      buffer.flip();
      return true;
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
  }
}
