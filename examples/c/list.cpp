// SPDX-License-Identifier: MIT
// The executions of a sandbox, newest first, from C++: owners in unique_ptr, results by callback.
//
//	list SANDBOX
#include <berth/berth.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace
{

struct Execution {
	std::string id, state;
	std::vector<std::string> command;
};

int collect(void *arg, const berth_record *record)
{
	auto &all = *static_cast<std::vector<Execution> *>(arg);
	Execution e{record->status.id, berth_state_name(record->status.state), {}};

	for (size_t i = 0; i < record->n_command; i++)
		e.command.emplace_back(record->command[i]);
	all.push_back(std::move(e));
	return 0;
}

struct Free {
	void operator()(berth *b) const
	{
		berth_free(b);
	}
	void operator()(berth_sandbox *s) const
	{
		berth_sandbox_close(s);
	}
};

int complain(const berth_error &err)
{
	std::cerr << "list: " << err.message << '\n';
	return berth_error_exit_code(err.code);
}

} // namespace

int main(int argc, char **argv)
{
	berth_error err = BERTH_ERROR_INIT;
	berth *b = nullptr;
	berth_sandbox *s = nullptr;
	std::vector<Execution> all;

	if (argc != 2) {
		std::cerr << "usage: list SANDBOX\n";
		return 2;
	}
	if (berth_new(nullptr, &b, &err) < 0)
		return complain(err);
	std::unique_ptr<berth, Free> context(b);
	if (berth_sandbox_open(b, argv[1], nullptr, 0, &s, &err) < 0)
		return complain(err);
	std::unique_ptr<berth_sandbox, Free> sandbox(s);
	if (berth_list(s, collect, &all, &err) < 0)
		return complain(err);
	for (const auto &e : all) {
		std::cout << e.id << ' ' << e.state;
		for (const auto &word : e.command)
			std::cout << ' ' << word;
		std::cout << '\n';
	}
	return 0;
}
