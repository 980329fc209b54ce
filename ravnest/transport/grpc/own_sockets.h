#pragma once

namespace ravnest::transport {

// Sockets that are this process's alone. A process that is forked off and stays, as a data loader's
// worker does, lets go of them: it may outlive us, and then our port would be taken, and nobody
// would see that we are gone. Any thread.

// Whoever owns the descriptor may close it without telling.
void keep_own(int descriptor);
// Closes one that nobody else does; -1 stays.
void close_own(int& descriptor);

}  // namespace ravnest::transport
