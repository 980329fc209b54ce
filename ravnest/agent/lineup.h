#pragma once

#include <functional>
#include <map>
#include <string>

#include "ravnest/coordinator/assignment.h"
#include "ravnest/package/package.h"

namespace ravnest::agent {

// Where a peer can be reached from here: its address, or that of a local end of the relay.
using Resolve = std::function<std::string(const coordinator::Peer&)>;

// The node file of a place, which was written for the plan's shapes, for the machines of an
// assignment: real addresses, and ids that carry each cluster's epoch. `self` is where this machine
// listens. Throws std::invalid_argument where the two do not fit.
package::NodeConfig with_machines(package::NodeConfig node,
                                  const coordinator::Assignment& assignment,
                                  const std::string& self, const Resolve& resolve);

// What the server does not know yet, after it was started again, is taken from an earlier
// assignment: addresses, and which links of the same clusters it relayed. False where an address is
// still missing.
bool fill_gaps(coordinator::Assignment& assignment, const coordinator::Assignment* former);

// Who may bear which name on the wire: node name, member id.
std::map<std::string, std::string> members_of(const coordinator::Assignment& assignment);

// How many of its providers are on this machine: they share its cores.
std::int64_t providers_here(const coordinator::Assignment& assignment);

// The place of this assignment among its clusters: the rank in rings.
std::size_t rank_of(const coordinator::Assignment& assignment);

}  // namespace ravnest::agent
