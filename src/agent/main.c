/* SPDX-License-Identifier: MIT */
/* Placeholder: to be replaced by the owner of this folder. */
int main(void)
{
	return 125;
}
